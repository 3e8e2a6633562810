// Columns of text that line up.
#ifndef KILN_CLIENT_CLI_TEXT_TABLE_H_
#define KILN_CLIENT_CLI_TEXT_TABLE_H_

#include <string>
#include <vector>

#include "kiln/v1/executable.pb.h"

namespace kiln::cli {

using Row = std::vector<std::string>;

// The first row is the header. Cells that look like numbers stand to the right.
std::string TableText(const std::vector<Row>& rows);

// "12.3 us", "4.56 ms", "1.23 s"
std::string MicrosText(double micros);
// "12.3 MB"
std::string BytesText(double bytes);
// "(x: float32 (2, 3), w: float32 (3,) updated) -> float32 (2,)"
std::string SignatureText(const v1::Signature& signature);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_TABLE_H_
