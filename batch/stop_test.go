package batch

import (
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// endless are blank lines without an end, whether asked for as they are or packed.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

// TestStop: who has waited long enough need not wait for the end of the input,
// not even where a few packed bytes stand for a night of blank lines, or of one.
func TestStop(t *testing.T) {
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	if _, err := io.CopyN(z, endless{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	longLine := `{"id":"` + strings.Repeat("x", 64<<20)
	for name, in := range map[string]io.Reader{
		"blank lines": endless{}, "packed blank lines": strings.NewReader(packed.String()), "one line": strings.NewReader(longLine),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := OpenReader(in, "in.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			enough, asked := errors.New("enough"), 0
			r.Stop = func() error {
				if asked++; asked > 5 {
					return enough
				}
				return nil
			}
			if _, err := Validate(r); !errors.Is(err, enough) {
				t.Errorf("it ends with %v", err)
			}
			if asked != 6 {
				t.Errorf("it read on: asked %d times", asked)
			}
		})
	}
}
