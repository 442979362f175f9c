//go:build unix

package main

import (
	"os"
	"syscall"
)

// lock keeps other processes from writing the same file; it ends with the file.
func lock(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
