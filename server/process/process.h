// How a process behaves that serves.
#ifndef KILN_SERVER_PROCESS_PROCESS_H_
#define KILN_SERVER_PROCESS_PROCESS_H_

namespace kiln::server {

// Before any thread starts.
//  - Debian's Abseil looks for lock cycles on every lock, through one table that all
//    threads share. Nothing on the path of an Execute may be shared.
//  - A transfer makes and drops a chunk at a time. By itself glibc gives each back to the
//    system and takes new pages for the next, and half of an upload is page faults. So it
//    keeps up to 32 MiB at the end of each of its arenas.
void PrepareToServe();

}  // namespace kiln::server

#endif  // KILN_SERVER_PROCESS_PROCESS_H_
