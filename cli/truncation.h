// A file that is mapped and loses bytes while it is read: the kernel answers with SIGBUS, which
// would end the command without a word.
#pragma once

namespace waybill::cli {

// From now on such a fault ends the process with FileTruncated, the file named, and the exit status
// of an input that can't be read; with `json` also on stdout. Every other SIGBUS ends it as before.
void report_truncated_files(bool json);

}  // namespace waybill::cli
