package batch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// spoolMemory is how much a spool keeps in memory; what is more goes to a file.
const spoolMemory = 512 << 10

// spool keeps byte strings in the order in which they came, to be read again.
type spool struct {
	memory [][]byte
	file   *os.File
	out    *bufio.Writer // to file
	size   int64         // bytes that were added
}

// add adds the string that the parts make.
func (s *spool) add(parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	s.size += int64(size)
	if s.file == nil {
		if s.size <= spoolMemory {
			s.memory = append(s.memory, slices.Concat(parts...))
			return nil
		}
		if err := s.open(); err != nil {
			return err
		}
	}
	var n [binary.MaxVarintLen64]byte
	_, err := s.out.Write(binary.AppendUvarint(n[:0], uint64(size)))
	for _, p := range parts {
		if err == nil {
			_, err = s.out.Write(p)
		}
	}
	return keptError(err)
}

// open starts the file. Where the system allows, it has no name, so that a killed
// process leaves none behind.
func (s *spool) open() error {
	f, err := os.CreateTemp("", "nightshift-*.lines")
	if err != nil {
		return keptError(err)
	}
	_ = os.Remove(f.Name()) // else close removes it
	s.file, s.out = f, bufio.NewWriterSize(f, 256<<10)
	return nil
}

// each passes what was added to read, whose slice is used again.
func (s *spool) each(read func([]byte) error) error {
	for _, b := range s.memory {
		if err := read(b); err != nil {
			return err
		}
	}
	if s.file == nil {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return keptError(err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return keptError(err)
	}
	in := bufio.NewReaderSize(s.file, 256<<10)
	var b []byte
	for {
		n, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			if uint64(cap(b)) < n {
				b = make([]byte, n)
			}
			b = b[:n]
			_, err = io.ReadFull(in, b)
		}
		if err != nil {
			return keptError(err)
		}
		if err := read(b); err != nil {
			return err
		}
	}
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}

func keptError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("keep the checked lines (TMPDIR names where): %w", err)
}
