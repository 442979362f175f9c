package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/DeRuina/timberjack"
)

const (
	fileMegabytes = 100 // after which a file is rotated: about 300,000 records
	fileBackups   = 10  // rotated files that are kept, compressed
)

// file is the rotated file of a worker's records.
type file struct {
	w   *timberjack.Logger
	buf []byte
}

// openFile opens the file for a name in which {host} and {pid} stand for this
// process. Rotated ones stand beside it, with the time in their names.
func openFile(name string) (*file, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name = strings.NewReplacer("{host}", host, "{pid}", strconv.Itoa(os.Getpid())).Replace(name)
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return nil, fmt.Errorf("call_log.file: %w", err)
	}
	try, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("call_log.file: %w", err)
	}
	if err := try.Close(); err != nil {
		return nil, fmt.Errorf("call_log.file: %w", err)
	}
	return &file{w: &timberjack.Logger{Filename: name, MaxSize: fileMegabytes, MaxBackups: fileBackups, Compression: "gzip"}}, nil
}

// write appends a record.
func (f *file) write(r *Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	f.buf = append(append(f.buf[:0], b...), '\n')
	if _, err := f.w.Write(f.buf); err != nil {
		return fmt.Errorf("write call_log.file: %w", err)
	}
	return nil
}

func (f *file) close() error { return f.w.Close() }
