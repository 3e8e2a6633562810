#include "server/admin/pages.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "compiler/options/version.h"
#include "server/admin/exposition.h"
#include "server/build_id.h"
#include "server/engine/engine.h"

namespace kiln::server {
namespace {

constexpr char kPlain[] = "text/plain; charset=utf-8";

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
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
  AdminAnswer answer = {200, kPlain, ""};
  if (!serving) absl::StrAppend(&answer.body, "not serving: preparing, or stopping\n");
  for (const auto& device : engine.devices())
    absl::StrAppend(&answer.body, device->name(), " ", StateOf(*device), "\n");
  if (!serving || !AnyDeviceUp(engine)) answer.status = 503;
  return answer;
}

std::string Overview(const Engine& engine, absl::string_view build, bool ready, absl::Duration up) {
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>kilnd</title></head><body>\n",
      "<h1>kilnd</h1>\n<p>", compiler::kCompilerVersion, ", build ", build, ", up for ",
      absl::FormatDuration(absl::Floor(up, absl::Seconds(1))), ", ", ready ? "ready" : "not ready", "</p>\n<ul>\n",
      "<li><a href=\"/metrics\">/metrics</a>: what it counts, for Prometheus</li>\n",
      "<li><a href=\"/healthz\">/healthz</a>: whether it is alive</li>\n",
      "<li><a href=\"/readyz\">/readyz</a>: whether it serves</li>\n</ul>\n<table>\n",
      "<tr><th>device</th><th>is</th><th>state</th><th>bytes in use</th><th>of</th></tr>\n");
  for (const auto& device : engine.devices()) {
    const runtime::hal::AllocatorStats memory = device->stats().memory;
    absl::StrAppend(&page, "<tr><td>", EscapeHtml(device->name()), "</td><td>", EscapeHtml(device->description()),
                    "</td><td>", EscapeHtml(StateOf(*device)), "</td><td>", memory.in_use_bytes, "</td><td>",
                    memory.limit_bytes, "</td></tr>\n");
  }
  absl::StrAppend(&page, "</table>\n</body></html>\n");
  return page;
}

}  // namespace

std::vector<AdminPage> PagesOf(Engine* engine, std::function<bool()> serving) {
  const auto ready = [engine, serving = std::move(serving)] { return Ready(*engine, serving()); };
  const auto is_ready = [ready] { return ready().status == 200; };
  const auto exposition = std::make_shared<const Exposition>(engine, is_ready);
  std::vector<AdminPage> pages;
  pages.push_back({"/metrics", [exposition] {
                     return AdminAnswer{200, "text/plain; version=0.0.4; charset=utf-8", exposition->Text()};
                   }});
  pages.push_back({"/healthz", [] { return AdminAnswer{200, kPlain, "alive\n"}; }});
  pages.push_back({"/readyz", ready});
  pages.push_back({"/", [engine, is_ready, build = BuildId(), begin = SteadyNow()] {
                     return AdminAnswer{200, "text/html; charset=utf-8",
                                        Overview(*engine, build, is_ready(), SteadyNow() - begin)};
                   }});
  return pages;
}

}  // namespace kiln::server
