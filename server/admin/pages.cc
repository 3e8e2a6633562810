#include "server/admin/pages.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/blake3.h"
#include "base/check.h"
#include "server/admin/api.h"
#include "server/admin/exposition.h"
#include "server/admin/web_files.h"
#include "server/engine/engine.h"

namespace kiln::server {
namespace {

constexpr char kPlain[] = "text/plain; charset=utf-8";

// By how a file's name ends. A browser takes no script and no style of another type.
constexpr struct {
  const char* end;
  const char* type;
} kTypes[] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
};

std::string TypeOf(absl::string_view path) {
  for (const auto& [end, type] : kTypes) {
    if (absl::EndsWith(path, end)) return type;
  }
  KILN_CHECK(false);  // tests/python/server/pages_test.py asks for every file
  return "";
}

std::string StateOf(const runtime::hal::Device& device) {
  const absl::Status health = device.health();
  return health.ok() ? "up" : absl::StrCat("lost: ", health.message());
}

bool AnyDeviceUp(const Engine& engine) {
  const auto devices = engine.devices();
  return std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device->health().ok(); });
}

// One lost device of several is told, and does not take the others from service.
AdminAnswer Ready(const Engine& engine, bool serving) {
  AdminAnswer answer = {200, kPlain, "", ""};
  if (!serving) absl::StrAppend(&answer.body, "not serving: preparing, or stopping\n");
  for (const auto& device : engine.devices())
    absl::StrAppend(&answer.body, device->name(), " ", StateOf(*device), "\n");
  if (!serving || !AnyDeviceUp(engine)) answer.status = 503;
  return answer;
}

// Browsers keep it, and ask whether it is still the same: the tag is its hash.
AdminPage PageOf(const WebFile& file) {
  const bool first = file.path == "index.html";
  const AdminAnswer answer = {
      200, TypeOf(file.path), std::string(file.body),
      absl::StrCat("\"", absl::BytesToHexString(Blake3Of(file.body).view()).substr(0, 32), "\"")};
  return {first ? "/" : absl::StrCat("/web/", file.path), [answer](const AdminRequest&) { return answer; }};
}

}  // namespace

std::vector<AdminPage> PagesOf(Engine* engine, const ServerState* state, PagesOptions options) {
  const auto ready = [engine, serving = std::move(options.serving)] { return Ready(*engine, serving()); };
  const auto is_ready = [ready] { return ready().status == 200; };
  const auto exposition = std::make_shared<const Exposition>(engine, options.models, is_ready);
  std::vector<AdminPage> pages = ApiPages(engine, state, options.shows_programs);
  pages.push_back({"/metrics", [exposition](const AdminRequest&) {
                     return AdminAnswer{200, "text/plain; version=0.0.4; charset=utf-8", exposition->Text(), ""};
                   }});
  pages.push_back({"/healthz", [dead = std::move(options.dead)](const AdminRequest&) {
                     if (dead()) return AdminAnswer{503, kPlain, "the port does not answer\n", ""};
                     return AdminAnswer{200, kPlain, "alive\n", ""};
                   }});
  pages.push_back({"/readyz", [ready](const AdminRequest&) { return ready(); }});
  const auto files = WebFiles();
  std::transform(files.begin(), files.end(), std::back_inserter(pages), PageOf);
  return pages;
}

}  // namespace kiln::server
