// Includes nginx's headers of its core, which are not made for C++. Those of http and stream are
// included by http/ngx.hpp and stream/ngx.hpp alone. Every header here includes one of the three
// first.
#pragma once

extern "C" {
#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
}
