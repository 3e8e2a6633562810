// CLI11 is all headers, and each program that reads flags compiles all of it. Nobody waits for flags: without
// optimisation the compiler is through it in half the time. What it includes stays as it is everywhere.
#ifndef KILN_THIRD_PARTY_CLI11_CLI_CLI_HPP_
#define KILN_THIRD_PARTY_CLI11_CLI_CLI_HPP_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <locale>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#pragma clang optimize off
#include_next <CLI/CLI.hpp>
#pragma clang optimize on

#endif  // KILN_THIRD_PARTY_CLI11_CLI_CLI_HPP_
