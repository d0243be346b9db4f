// The fuzz targets. Each takes an input of any bytes, and ends the process where something is
// wrong.
//
// `make fuzz` has libFuzzer find inputs for them. What it found of interest is kept in
// t/fuzz/corpus/<target>/, and the unit tests run that.
#pragma once

#include "input.hpp"

namespace fuzz {

void cluster_maps(Input input);    // as nodes tell them
void clusters(Input input);        // keys that move from node to node
void keys(Input input);            // of Redis, for clients' keys
void local(Input input);           // verdicts of this host alone
void log_lines(Input input);       // of any format, taken apart
void numbers(Input input);         // what users write, and what scripts are sent
void operators(Input input);       // what they send to the API
void replies(Input input);         // cut out of a stream
void response_bodies(Input input); // and what is found in them, in whatever pieces they come
void sentinels(Input input);       // what they say of masters
void sessions(Input input);        // from asking to verdict, whatever Redis and the network do
void shared_tables(Input input);   // their memory torn by other processes
void verdicts(Input input);        // of what scripts reply, up to headers

struct Target {
    const char *name;
    void (*run)(Input input);
};

inline constexpr Target targets[] = {
    {"cluster_maps", cluster_maps},
    {"clusters", clusters},
    {"keys", keys},
    {"local", local},
    {"log_lines", log_lines},
    {"numbers", numbers},
    {"operators", operators},
    {"replies", replies},
    {"response_bodies", response_bodies},
    {"sentinels", sentinels},
    {"sessions", sessions},
    {"shared_tables", shared_tables},
    {"verdicts", verdicts},
};

} // namespace fuzz
