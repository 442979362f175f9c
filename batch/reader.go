package batch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"nightshift/internal/schema"
)

// maxLine is the longest line of input, in bytes.
const maxLine = 16 << 20

// Reader reads the requests of a batch from JSONL, plain or gzipped, as a
// stream: it holds one line at a time. It is not safe for concurrent use.
type Reader struct {
	// Rung says where a line starts whose body names a model, and false where no
	// rung has it: such a line is a *LineError. nil: all start at the first rung.
	Rung func(model string) (rung int, ok bool)
	// Serves says why no rung from there on has a line's endpoint, which makes the
	// line a *LineError. nil: all are thought to be had.
	Serves func(endpoint string, rung int) error

	name   string
	in     *bufio.Reader
	buf    []byte
	number int64
	ended  bool
	// schemas of lines, which are often all the same.
	schemas *schema.Cache
}

// OpenReader reads requests from r; name stands in errors. Gzip is known by its
// first bytes, whatever the name.
func OpenReader(r io.Reader, name string) (*Reader, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	out := &Reader{name: name, schemas: schema.NewCache()}
	magic, err := in.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if bytes.Equal(magic, gzipMagic) {
		z, err := newMembers(in)
		if err != nil {
			return nil, &LineError{File: name, Msg: "it is not a gzip file, or a torn one: " + err.Error()}
		}
		in = bufio.NewReaderSize(z, 256<<10)
	} else if strings.HasSuffix(name, ".gz") {
		return nil, &LineError{File: name, Msg: "it is not a gzip file"}
	}
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte{0xef, 0xbb, 0xbf}) {
		_, _ = in.Discard(3)
	}
	out.in = in
	return out, nil
}

// Name is what errors call the source.
func (r *Reader) Name() string { return r.name }

// Next returns the next request and its raw bytes without the line's end, or
// io.EOF; parts of the Line share the memory of the raw bytes. Blank lines are
// passed over, but count as physical lines. A line that is no request is a
// *LineError, after which Next goes on with the following line; once the input
// itself is broken, it ends.
func (r *Reader) Next() (Line, []byte, error) {
	for {
		if r.ended {
			return Line{}, nil, io.EOF
		}
		raw, err := r.readLine()
		if err != nil {
			return Line{}, nil, err
		}
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		// The line keeps parts of the text, and r.buf is used again.
		raw = bytes.Clone(raw)
		l, err := parseLine(raw)
		if err == nil {
			err = r.place(&l)
		}
		if err == nil {
			err = r.checkSchema(l)
		}
		if err != nil {
			le := &LineError{File: r.name, Line: r.number, Msg: err.Error()}
			var fe *fieldError
			if errors.As(err, &fe) {
				le.Field, le.Msg = fe.name, fe.msg
			}
			return Line{}, raw, le
		}
		l.Number = r.number
		return l, raw, nil
	}
}

// place puts a line on the rung of the model that it names, and refuses one that
// no rung from there on can serve.
func (r *Reader) place(l *Line) error {
	if r.Rung != nil && l.Model != "" {
		rung, ok := r.Rung(l.Model)
		if !ok {
			return &fieldError{"body.model", fmt.Sprintf("no rung of the ladder has the model %q", l.Model)}
		}
		l.Rung = rung
	}
	if r.Serves == nil {
		return nil
	}
	if err := r.Serves(l.Endpoint, l.Rung); err != nil {
		return &fieldError{"url", err.Error()}
	}
	return nil
}

// checkSchema refuses a schema that does not compile: no answer could be checked.
func (r *Reader) checkSchema(l Line) error {
	if l.Schema == nil {
		return nil
	}
	if _, err := r.schemas.Compile(l.Schema); err != nil {
		return &fieldError{"schema", err.Error()}
	}
	return nil
}

// readLine returns the next physical line without its end; at the end of the
// input it is empty and r.ended is set.
func (r *Reader) readLine() ([]byte, error) {
	r.buf = r.buf[:0]
	r.number++
	tooLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		if tooLong = tooLong || len(r.buf)+len(part) > maxLine+2; !tooLong {
			r.buf = append(r.buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			r.ended = true
			if !errors.Is(err, io.EOF) {
				return nil, r.broken(err)
			}
		}
		break
	}
	line := bytes.TrimSuffix(bytes.TrimSuffix(r.buf, []byte{'\n'}), []byte{'\r'})
	if tooLong || len(line) > maxLine {
		return nil, &LineError{File: r.name, Line: r.number, Msg: fmt.Sprintf("it is longer than %d MiB", maxLine>>20)}
	}
	return line, nil
}

func (r *Reader) broken(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &LineError{File: r.name, Line: r.number, Msg: "the gzip file is torn here"}
	case errors.Is(err, errNoGzip):
		return &LineError{File: r.name, Msg: err.Error()}
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return &LineError{File: r.name, Line: r.number, Msg: "the gzip file is damaged before this line"}
	}
	return fmt.Errorf("read %s line %d: %w", r.name, r.number, err)
}
