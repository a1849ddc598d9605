// SPDX-License-Identifier: Apache-2.0
#pragma once

// The last of four steps of h = h / 2 + 1, by code built without exceptions; negative if a call fails.
float sum_without_exceptions();
