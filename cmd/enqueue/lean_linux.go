package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dropStartPages unmaps the pages of the program itself, most of which the start of
// its many packages touched and nobody needs again; of about 100 MB of code and
// constants Linux maps 64 KiB around every byte that is touched, which comes to 50
// MB. What is needed is mapped again from the cache of files. Pages that differ from
// the file, as those of relocations and of debuggers do, stay.
func dropStartPages() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	var from, to uint64
	for line := range strings.Lines(string(maps)) {
		words := strings.Fields(line)
		switch {
		case len(words) > 5: // of a mapping that has a name
			from, to = 0, 0
			if strings.HasPrefix(words[1], "r-") && strings.HasSuffix(strings.TrimSuffix(line, "\n"), " "+program) {
				from, to = span(words[0])
			}
		case len(words) == 3 && words[0] == "Anonymous:" && words[1] == "0" && from < to:
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(from), uintptr(to-from), syscall.MADV_DONTNEED)
			from, to = 0, 0
		}
	}
}

// span reads the addresses of a mapping, "55d0-55e0".
func span(text string) (from, to uint64) {
	a, b, _ := strings.Cut(text, "-")
	from, errFrom := strconv.ParseUint(a, 16, 64)
	to, errTo := strconv.ParseUint(b, 16, 64)
	if errFrom != nil || errTo != nil {
		return 0, 0
	}
	return from, to
}
