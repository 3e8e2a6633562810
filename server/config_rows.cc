// The settings: what each is by default, and what a person needs to know about it.
#include <vector>

#include "server/config.h"

namespace kiln::server {

const std::vector<ConfigRow>& ConfigRows() {
  static const auto* rows = new std::vector<ConfigRow>{
      {"listen", "127.0.0.1:7437", "host:port to serve on; port 0 takes a free one; or unix:PATH"},
      {"listen_mode", "",
       "of --listen=unix:PATH, who may connect: 0600, this user; 0660, its group as well; 0666, whoever reaches the "
       "path; empty: what the umask leaves, or 0660 with a group"},
      {"listen_group", "", "group of that file, a name or a number, one of this user's own; empty: this user's first"},
      {"admin_listen", "",
       "host:port of pages for operators, /metrics, /healthz and /readyz, over HTTP (docs/pages.md, docs/metrics.md); "
       "port 0 takes a free one; empty: none. "
       "Nobody is asked who they are, so another address than loopback needs --insecure"},
      {"admin_names", "",
       "names under which that port is asked, beside localhost and addresses, with commas between: gpu1,gpu1.example"},
      {"http_listen", "",
       "host:port of the open inference protocol over HTTP, as JSON and binary, for curl and Triton's clients "
       "(docs/serving.md); port 0 takes a free one; empty: none. Tokens travel in the clear, so another address than "
       "loopback needs --insecure, where something before it encrypts"},
      {"trace_buffer_bytes", "4194304",
       "host memory that keeps traces of calls and runs that ended lately, for `kiln trace`; at most 256 MiB; 0: none"},
      {"otlp_endpoint", "",
       "URL of an OpenTelemetry collector that gets traces by OTLP over HTTP, as http://127.0.0.1:4318/v1/traces "
       "(docs/tracing.md); empty: what OTEL_EXPORTER_OTLP_ENDPOINT says; none: none"},
      {"trace_sample_ratio", "0.01",
       "of calls whose caller does not say whether they are to be exported, so many are: 0 to 1"},
      {"cpu_devices", "1", "CPU devices: CPU:0, CPU:1, …; they share the cores, and the memory in equal parts"},
      {"cpu_threads", "0",
       "worker threads of the CPU devices together; 0 is one for each core this process may use (taskset, cpuset, "
       "cpu.max of its control groups)"},
      {"measure_core", "true",
       "measure what a core of this CPU does in a cycle, in less than 200 ms, if a file of --program_cache_dir does "
       "not say it yet; without, schedules are those of a usual core (kiln devices --verbose)"},
      {"cpu_memory_bytes", "0",
       "most bytes the CPU devices hand out together; 0 is 80% of the machine's, less what compile workers may take"},
      {"gpus", "auto",
       "GPUs to serve beside the CPU: auto, all that NVIDIA's and AMD's drivers list (CUDA_VISIBLE_DEVICES and "
       "ROCR_VISIBLE_DEVICES hide some); none; or kinds without which the server does not start: cuda, hip, or "
       "cuda,hip. `kiln devices` says why there is none"},
      {"gpu_memory_percent", "90", "most of each GPU's memory that is handed out, in percent; 0 is 90"},
      {"ptxas", "",
       "path of NVIDIA's assembler: programs for sm_90a and later are stored as machine code, not as PTX that the "
       "driver compiles whenever one is loaded; empty or none: PTX"},
      {"program_cache_bytes", "1073741824",
       "most bytes of compiled programs kept in memory, and again of recordings with theirs"},
      {"program_cache_dir", "",
       "folder of compiled programs that outlives the server and may be shared by several; empty: memory alone"},
      {"program_cache_disk_bytes", "8589934592", "most bytes of that folder; the least recently used go first"},
      {"program_cache_key_file", "",
       "file of 32 secret bytes, outside that folder: only what was sealed with them is loaded from it; empty: all"},
      {"warm_up", "",
       "file of programs, a list or a bundle of `kiln cache export`, to load from that folder before being ready"},
      {"compile_threads", "0", "threads that compile; 0 is one a core, at most 4"},
      {"graph_limits.max_nodes", "200000", "most nodes of a graph"},
      {"graph_limits.max_bytes", "67108864", "most bytes of a serialized graph"},
      {"graph_limits.max_depth", "100000", "longest path through a graph"},
      {"graph_limits.max_run_seconds", "3600",
       "a run of a program or a recording that is estimated to take so long on its device is refused"},
      {"beam_limits.max_width", "16",
       "widest search for schedules that a client gets (CompileOptions.beam, kiln tune); 0: no client may search"},
      {"beam_limits.default_budget_ms", "10000", "time of a search whose client does not say, for a whole program"},
      {"beam_limits.max_budget_ms", "60000", "most time of a search, whatever its client says"},
      {"log_level", "info", "trace, debug, info, warn or error"},
      {"log_format", "text", "text, lines of key=value, or json: what is told on the error output"},
      {"drain_seconds", "30", "how long SIGTERM waits for requests that run"},
      {"drain_grace_seconds", "0",
       "how long SIGTERM leaves the port open before that, while health checks fail already: as long as a balancer "
       "takes to notice"},
      {"advertise", "",
       "host:port by which clients reach this server and no other, where a balancer stands before several: a session "
       "names its server, and clients go there (docs/balancers.md); port 0 is the one that is served; empty: none"},
      {"profile_jit", "false", "register generated code with perf and gdb"},
      {"tenants", "",
       "file that says who may use the server: kiln.v1.Tenants as textproto, read again when it changes and at "
       "SIGHUP; empty: whoever reaches the port (docs/security.md)"},
      {"tls.certificate", "", "file of the server's certificate and its signers, PEM; empty: no encryption"},
      {"tls.key", "", "file of its key, PEM"},
      {"tls.client_ca", "", "file of those who sign clients' certificates, PEM; empty: clients need none"},
      {"insecure", "false", "serve without authentication, or without encryption, on an address that is not loopback"},
      {"allow_native_code", "false", "let in ops that carry a client's own code: it can do what the server can"},
      {"no_reflection", "false", "hide the reflection service"},
      {"session_limits.default_lease_seconds", "10", "lease of a session whose client does not ask for one"},
      {"session_limits.max_lease_seconds", "3600", "longest lease of a session"},
      {"session_limits.max_sessions", "65536", "most sessions"},
      {"session_limits.max_sessions_per_address", "1024", "most sessions of clients at one address"},
      {"session_limits.max_handles", "262144", "most handles of one session"},
      {"max_handles", "1048576", "most handles of all clients together"},
      {"stream_limits.max_commands", "1024", "most commands of one stream under way; beyond it, none is read"},
      {"stream_limits.max_payload_bytes", "16777216", "most bytes that came with them"},
      {"stream_limits.max_answer_bytes", "8388608",
       "most bytes of answers kept for one stream, unread or unacknowledged"},
      {"compile_isolation", "auto",
       "on, off or auto: compile in processes of their own, locked in, which a fault or a deadline ends alone; auto is "
       "with tenants"},
      {"compile_limits.max_seconds", "120", "longest compilation in such a process"},
      {"compile_limits.max_memory_bytes", "4294967296", "most memory of such a process"},
      {"compile_limits.max_total_memory_bytes", "0",
       "most memory of all such processes together; 0 is a quarter of the machine's"},
      {"fault_folder", "",
       "folder for the graphs on which such a process failed without an answer, for a report: the last 32, at most "
       "64 MiB (docs/operations.md); empty: none are kept"},
      {"connection_limits.max_connections", "0", "most connections; 0 is as many as there may be descriptors for"},
      {"connection_limits.max_per_address", "0", "most connections from one address; 0 is half of all"},
      {"connection_limits.max_streams", "1024", "most calls under way on one connection; its client has more wait"},
      {"connection_limits.max_bytes", "0",
       "memory of gRPC's for what comes and goes, of all connections together, beyond which it ends calls; 0 is an "
       "eighth of the machine's, and 2 GiB at least"},
      {"keepalive_seconds", "20",
       "how long a silent client may stay silent, and then leave a ping unanswered; 0 is for ever"},
      {"shared_memory.max_bytes", "0",
       "most bytes of memory that clients on this machine share with the server; 0 is none"},
      {"shared_memory.socket", "",
       "Unix socket at which they hand it over; empty is one in a folder of the server's own"},
      {"shared_memory.named_max_bytes", "0",
       "most bytes of shared memory that clients of the open inference protocol register by name, for tensors of "
       "served "
       "models (docs/serving.md); 0: none. A caller by a Unix socket has what its user owns"},
      {"shared_memory.named_loopback", "false",
       "callers of loopback register what the server's own user owns: whoever can connect from this machine; not with "
       "tenants"},
      {"data_folder", "", "folder of .npy and .safetensors files that clients may have loaded to buffers"},
      {"meeting_seconds", "30",
       "how long a collective, or a copy between devices, waits for a device that is busy before it fails"},
      {"collectives_file", "", "file that keeps, for the next start, which algorithm is fastest for which collective"},
      {"mpi", "auto",
       "on, off or auto: one server over the processes that mpirun or srun --mpi=pmix started; rank 0 serves"},
      {"rank_silence_seconds", "10", "a process of them that says nothing for so long is dead"},
      {"rank_death", "serve", "when one dies: serve with the devices that are left, or stop"},
      {"mpi_library", "", "the library that knows MPI; empty is libkiln_mpi.so beside kilnd"},
      {"capture", "", "new file into which all requests that change anything go, with their data, for `kiln play`"},
      {"capture_max_bytes", "4294967296", "most bytes of that file; the server then goes on without it"},
      {"disable_pass", "",
       "optional passes of the compiler to leave out, separated by commas, to find the one at fault: "
       "optimize,keep_row. A name that cannot be left out is refused with those that can"},
      {"batching", "true",
       "run executions of a program that come while one runs as one, where it is proved that their rows do not mix "
       "(docs/batching.md); false: each alone"},
      {"audit_log", "",
       "file of lines of JSON: who changed what for others, and who was refused (docs/operations.md); opened anew at "
       "SIGHUP; empty: none"},
      {"access_log", "", "file of a line of JSON for each call, with where its time went; empty: none"},
      {"slow_log", "", "the same file for slow calls alone; empty: none. `kiln top` shows the last in any case"},
      {"slow_request_ms", "1000", "a unary call that takes so long is slow; 0: none is"},
      {"models", "",
       "folder of models, NAME/VERSION/model.onnx or model.kgraph, to serve by the open inference protocol (docs/serving.md); "
       "looked at again every two seconds; empty: none"},
      {"models_device", "", "device on which they run; empty: the first"},
      {"model_versions", "latest",
       "versions of each model: latest, latest:2 (the two greatest), all, or numbers such as 3+7; of some models by "
       "name: latest,bert=3+7,ranker=all"},
      {"model_sizes", "*=1:256",
       "sizes of the models' named dimensions, as batch=1:64,tokens=128,*=1:256: the least and the greatest, or a "
       "number; * is each other name, without which it is refused"},
      {"model_limits.max_models", "256", "most versions that are loaded"},
      {"model_limits.max_bytes", "4294967296", "most bytes of a version's files"},
      {"model_limits.max_seconds", "300", "longest load of a version"},
      {"dump", "", "folder into which every compilation writes its stages, by graph hash"},
  };
  return *rows;
}

}  // namespace kiln::server
