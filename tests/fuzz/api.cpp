// SPDX-License-Identifier: Apache-2.0
// Bytes for the entry of api.h, where libFuzzer does not bring them.
#include "fuzz/api.h"

#include <fmt/format.h>

#include <stdexcept>

#include "fuzz/parts.h"
#include "fuzz/random.h"

namespace fuzz {
namespace {

const Session* watched = nullptr;

std::string hex_of(const std::vector<uint8_t>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

std::vector<uint8_t> bytes_of(const std::string& hex) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    return bytes;
}

}  // namespace

void api_case(const Session& session, int64_t index) {
    const Settings& settings = session.settings();
    watched = &session;
    broken = [](const std::string& what) { watched->finding(what); };
    happened = [](const char* what) { watched->count(what); };
    std::vector<uint8_t> bytes;
    if (!settings.lines.empty()) {
        bytes = bytes_of(settings.lines[static_cast<size_t>(index)]);
    } else {
        Random random(settings.seed, static_cast<uint64_t>(index));
        bytes.resize(static_cast<size_t>(random.between(20, 200)));
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.bits());
    }
    if (session.announce("api --problem " + hex_of(bytes))) (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace fuzz
