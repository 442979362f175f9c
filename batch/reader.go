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

// maxLine is the longest line of input, in bytes, and longLine from where on one
// is read while no other is under way, to save memory.
const (
	maxLine  = 16 << 20
	longLine = 1 << 20
)

// Reader reads the requests of a batch from JSONL, plain or gzipped, as a
// stream. It is not safe for concurrent use, but reads with several goroutines
// itself: the functions below must be safe for concurrent use.
type Reader struct {
	// Rung says where a line starts whose body names a model, and false where no
	// rung has it: such a line is a *LineError. nil: all start at the first rung.
	Rung func(model string) (rung int, ok bool)
	// Serves says why no rung from there on has a line's endpoint, which makes the
	// line a *LineError. nil: all are thought to be had.
	Serves func(endpoint string, rung int) error
	// Keep says which requests count: the others are passed over. nil: all do.
	Keep func(Line) bool
	// Weigh is given the requests, some at a time; they share memory that is used
	// again when it returns. nil: nobody asks.
	Weigh func([]Line)
	// Unweigh is given those of them that turn out to repeat an ID, where such are
	// skipped. nil: nobody asks.
	Unweigh func([]Line)
	// SkipInvalid makes of a line that is no request, or repeats an ID, one that
	// has failed, where it would be an error of the file.
	SkipInvalid bool
	// Stop is asked before each read of the input, which its error ends. nil: it is
	// read to its end, however long that takes.
	Stop func() error

	name   string
	in     *bufio.Reader
	buf    []byte
	number int64
	ended  bool
	fault  bool         // the input is broken, or cannot be read
	long   func() error // is told of a line that is longer than longLine
	// schemas of lines, which are often all the same.
	schemas *schema.Cache
}

// OpenReader reads requests from r; name stands in errors. Gzip is known by its
// first bytes, whatever the name.
func OpenReader(r io.Reader, name string) (*Reader, error) {
	out := &Reader{name: name, schemas: schema.NewCache()}
	in := bufio.NewReaderSize(&stoppable{r, out}, 256<<10)
	magic, err := in.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if bytes.Equal(magic, gzipMagic) {
		z, err := newMembers(in)
		if err != nil {
			return nil, &LineError{File: name, Msg: "it is not a gzip file, or a torn one: " + err.Error()}
		}
		// A small file can hold very much.
		in = bufio.NewReaderSize(&stoppable{z, out}, 256<<10)
	} else if strings.HasSuffix(name, ".gz") {
		return nil, &LineError{File: name, Msg: "it is not a gzip file"}
	}
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte{0xef, 0xbb, 0xbf}) {
		_, _ = in.Discard(3)
	}
	out.in = in
	return out, nil
}

// stoppable is an input that its reader can be told to stop reading.
type stoppable struct {
	io.Reader
	of *Reader
}

// Read implements io.Reader.
func (s *stoppable) Read(p []byte) (int, error) {
	if s.of.Stop != nil {
		if err := s.of.Stop(); err != nil {
			return 0, err
		}
	}
	return s.Reader.Read(p)
}

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
		raw, err := r.readLine(r.buf[:0])
		if r.buf = raw; err != nil {
			return Line{}, nil, err
		}
		if blank(raw) {
			continue
		}
		// The line keeps parts of the text, and r.buf is used again.
		raw = bytes.Clone(raw)
		l, bad := r.request(r.number, raw)
		if bad != nil {
			return Line{}, raw, bad
		}
		l.Digest = LineDigest(raw)
		if r.Keep == nil || r.Keep(l) {
			return l, raw, nil
		}
	}
}

func blank(raw []byte) bool { return len(bytes.TrimSpace(raw)) == 0 }

// request reads one line, but for its digest. It may be called concurrently.
func (r *Reader) request(number int64, raw []byte) (Line, *LineError) {
	l, err := parseLine(raw)
	if err == nil {
		err = r.place(&l)
	}
	if err == nil {
		err = r.checkSchema(l)
	}
	l.Number = number
	if err != nil {
		return l, r.lineError(number, err)
	}
	return l, nil
}

// lineError gives an error its place.
func (r *Reader) lineError(number int64, err error) *LineError {
	var fe *fieldError
	if errors.As(err, &fe) {
		return &LineError{File: r.name, Line: number, Field: fe.name, Msg: fe.msg}
	}
	return &LineError{File: r.name, Line: number, Msg: err.Error()}
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

// readLine appends the next physical line without its end to buf; at the end of
// the input that is nothing, and r.ended is set. What it returns with an error is
// buf, and of a line that is too long its beginning.
func (r *Reader) readLine(buf []byte) ([]byte, error) {
	r.number++
	from, tooLong := len(buf), false
	for {
		part, err := r.in.ReadSlice('\n')
		if n := len(buf) - from + len(part); n > maxLine+2 {
			tooLong = true
		} else if !tooLong {
			buf = append(withRoom(buf, len(part), from+maxLine+2), part...)
			if n > longLine && r.long != nil {
				if err := r.long(); err != nil {
					r.ended, r.fault = true, true
					return buf[:from], err
				}
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			r.ended = true
			if r.fault = !errors.Is(err, io.EOF); r.fault {
				return buf[:from], r.broken(err)
			}
		}
		break
	}
	line := bytes.TrimSuffix(bytes.TrimSuffix(buf[from:], []byte{'\n'}), []byte{'\r'})
	buf = buf[:from+len(line)]
	if tooLong || len(line) > maxLine {
		return buf, &LineError{File: r.name, Line: r.number, Msg: fmt.Sprintf("it is longer than %d MiB", maxLine>>20)}
	}
	return buf, nil
}

// withRoom returns buf with room for n bytes more. A long line doubles its room, up
// to the most that it may need, so that little is left of the smaller ones.
func withRoom(buf []byte, n, most int) []byte {
	if cap(buf)-len(buf) >= n || len(buf) < longLine {
		return buf
	}
	grown := make([]byte, len(buf), max(len(buf)+n, min(2*cap(buf), most)))
	copy(grown, buf)
	return grown
}

func (r *Reader) broken(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &LineError{File: r.name, Line: r.number, Msg: "the gzip file is torn here"}
	case errors.Is(err, errNoGzip):
		return &LineError{File: r.name, Msg: err.Error()}
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return &LineError{File: r.name, Line: r.number, Msg: "the gzip file is damaged before this line", damage: true}
	}
	return fmt.Errorf("read %s line %d: %w", r.name, r.number, err)
}
