package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeFile makes a file of what write writes, all or nothing; see writeFiles.
func writeFile(name string, write func(io.Writer) error) error {
	return writeFiles([]string{name}, nil, func(w []io.Writer) error { return write(w[0]) })
}

// writeFiles makes files of what write writes, all or nothing each: under other
// names first, which take the places of the names once all are complete. "-" is
// stdout; that, and what is no regular file, e.g. a pipe, is written to directly.
func writeFiles(names []string, stdout io.Writer, write func([]io.Writer) error) (err error) {
	files, writers := make([]*newFile, len(names)), make([]io.Writer, len(names))
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.drop())
		}
	}()
	for i, name := range names {
		if writers[i] = stdout; name == "-" {
			continue
		}
		if files[i], err = createFile(name); err != nil {
			return err
		}
		writers[i] = files[i].File
	}
	if err := write(writers); err != nil {
		return err
	}
	for _, step := range []func(*newFile) error{(*newFile).sync, (*newFile).place} {
		for _, f := range files {
			if err := step(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// newFile is a file that is being written. A nil one is none.
type newFile struct {
	*os.File
	name string
	tmp  string // what it is called until it is complete; "": it is written to directly
}

func createFile(name string) (*newFile, error) {
	f := &newFile{name: name}
	var err error
	if info, statErr := os.Stat(name); statErr == nil && !info.Mode().IsRegular() {
		f.File, err = os.OpenFile(name, os.O_WRONLY, 0)
	} else {
		f.tmp = name + "." + rand.Text()[:8] + ".tmp"
		f.File, err = os.OpenFile(f.tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return f, nil
}

func (f *newFile) sync() error {
	if f == nil || f.tmp == "" {
		return nil
	}
	return f.failed(f.Sync())
}

// place closes the file and gives it its name.
func (f *newFile) place() error {
	if f == nil {
		return nil
	}
	err := f.Close()
	f.File = nil
	if err == nil && f.tmp != "" {
		if err = os.Rename(f.tmp, f.name); err == nil {
			f.tmp = ""
		}
	}
	return f.failed(err)
}

// drop removes what did not get its name.
func (f *newFile) drop() (err error) {
	if f == nil {
		return nil
	}
	if f.File != nil {
		err = f.Close()
	}
	if f.tmp != "" {
		err = errors.Join(err, os.Remove(f.tmp))
	}
	return err
}

func (f *newFile) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write %s: %w", f.name, err)
}

// sameFile says whether two names are of the same place.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB) && infoA.Mode().IsRegular()
}

// nameOf is a file's name as people read it.
func nameOf(name string) string {
	if name == "-" {
		return stdoutName
	}
	return name
}
