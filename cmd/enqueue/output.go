package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"nightshift/internal/cli"
)

// stdoutName is what standard output is called.
const stdoutName = "standard output"

// output is where a run appends its results, each line by one write.
type output struct {
	name string
	w    io.Writer
	file *os.File // nil where nothing can be read back: a pipe, a terminal
}

// openOutput opens or makes the file; "-" is standard output. One process at a
// time holds a file.
func openOutput(name string, stdout io.Writer) (*output, error) {
	if name == "-" {
		return &output{name: stdoutName, w: stdout}, nil
	}
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND
	special := false
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		flags, special = os.O_WRONLY, true
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	if special {
		return &output{name: name, w: f}, nil
	}
	if err := lock(f); err != nil {
		_ = f.Close()
		return nil, cli.Refuse("wait until it is done, or name another file", "another process writes %s", name)
	}
	return &output{name, f, f}, nil
}

// where says where the results are.
func (o *output) where() string {
	if o.name == stdoutName {
		return "on " + o.name
	}
	return "in " + o.name
}

// is says whether the results would be written into that file.
func (o *output) is(path string) bool {
	if o.file == nil {
		return false
	}
	mine, err1 := o.file.Stat()
	other, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, other)
}

// append adds one line, or nothing: what a full disk took of it is cut off again,
// so that a later line never joins a piece of this one.
func (o *output) append(line []byte) error {
	n, err := o.w.Write(append(bytes.Clone(line), '\n'))
	if err == nil {
		return nil
	}
	err = fmt.Errorf("append to %s: %w", o.name, err)
	if n == 0 || o.file == nil {
		return err
	}
	size, seekErr := o.file.Seek(0, io.SeekEnd)
	if seekErr == nil {
		seekErr = o.file.Truncate(size - int64(n))
	}
	return errors.Join(err, seekErr)
}

// close writes the file through to the disk.
func (o *output) close() error {
	if o.file == nil {
		return nil
	}
	if err := errors.Join(o.file.Sync(), o.file.Close()); err != nil {
		return fmt.Errorf("close %s: %w", o.name, err)
	}
	return nil
}

// mend cuts a torn last line off, which a killed process or a full disk leaves,
// and returns how many bytes that were. A last line that only lacks its newline
// gets it. A file that does not look like ours is left as it is.
func (o *output) mend() (cut int64, err error) {
	if o.file == nil {
		return 0, nil
	}
	size, err := o.file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", o.name, err)
	}
	start, last, err := o.lastLine(size)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	if _, err := parseResult(last); err == nil {
		return 0, o.append(nil)
	}
	if !startsLikeResult(last) {
		return 0, o.foreign("the last line of " + o.name)
	}
	if err := o.file.Truncate(start); err != nil {
		return 0, fmt.Errorf("mend %s: %w", o.name, err)
	}
	return size - start, nil
}

func (o *output) foreign(where string) error {
	return cli.Fail("name another file with -o", fmt.Errorf("%s is no result of Nightshift; the file is left as it is", where))
}

// startsLikeResult says whether a piece of a line can be the beginning of a result.
func startsLikeResult(piece []byte) bool {
	// Where power failed, some file systems leave zeros for what was not written.
	piece = bytes.TrimRight(piece, "\x00")
	head := []byte(`{"id":"`)
	n := min(len(head), len(piece))
	return bytes.Equal(piece[:n], head[:n]) && !json.Valid(piece)
}

// lastLine returns what follows the last newline, and where it begins.
func (o *output) lastLine(size int64) (start int64, line []byte, err error) {
	const step = 64 << 10
	for start = size; start > 0; {
		n := min(step, start)
		buf := make([]byte, n)
		if _, err := o.file.ReadAt(buf, start-n); err != nil {
			return 0, nil, fmt.Errorf("read %s: %w", o.name, err)
		}
		if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
			return start - n + int64(i) + 1, append(buf[i+1:], line...), nil
		}
		line, start = append(buf, line...), start-n
	}
	return 0, line, nil
}

// each calls visit with every result and its place in the file, from 1.
func (o *output) each(visit func(number int, line []byte, r resultLine) error) error {
	if o.file == nil {
		return nil
	}
	if _, err := o.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", o.name, err)
	}
	in := bufio.NewReaderSize(o.file, 256<<10)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", o.name, err)
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			continue
		}
		r, err := parseResult(line)
		if err != nil {
			return o.foreign(fmt.Sprintf("%s:%d", o.name, number))
		}
		if err := visit(number, line, r); err != nil {
			return err
		}
	}
}

// without replaces the file by one that lacks the lines of those numbers, all
// or nothing, and goes on with that.
func (o *output) without(numbers map[int]bool) error {
	err := writeFile(o.name, func(w io.Writer) error {
		buf := bufio.NewWriterSize(w, 256<<10)
		err := o.each(func(number int, line []byte, _ resultLine) error {
			if numbers[number] {
				return nil
			}
			_, err := buf.Write(append(line, '\n'))
			return err
		})
		return errors.Join(err, buf.Flush())
	})
	if err != nil {
		return err
	}
	anew, err := openOutput(o.name, nil)
	if err != nil {
		return err
	}
	_ = o.file.Close() // the replaced file; nothing was written to it
	o.w, o.file = anew.w, anew.file
	return nil
}
