package batch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

var gzipMagic = []byte{0x1f, 0x8b}

// errNoGzip: something else follows the gzip data.
var errNoGzip = errors.New("bytes that are no gzip follow the gzip data")

// members reads gzip files that follow each other as one. The gzip reader of
// the standard library can do that too, but then has one error for what follows
// and is no gzip and for a file that is torn or damaged.
type members struct {
	in *bufio.Reader
	z  *gzip.Reader
}

func newMembers(in *bufio.Reader) (*members, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{in, z}, nil
}

// Read implements io.Reader.
func (m *members) Read(p []byte) (int, error) {
	n, err := m.z.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	return n, m.next()
}

// next starts the next file; io.EOF: there is none.
func (m *members) next() error {
	magic, err := m.in.Peek(len(gzipMagic))
	switch {
	case len(magic) == 0:
		return err
	case !bytes.Equal(magic, gzipMagic):
		return errNoGzip
	}
	if err := m.z.Reset(m.in); err != nil {
		if errors.Is(err, io.EOF) { // within its header
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	m.z.Multistream(false)
	return nil
}
