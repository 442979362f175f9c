package batch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// ExistsError is ErrExists with the first block of lines in which the contents
// differ; a First of 0: it is not known.
type ExistsError struct {
	ID          string
	First, Last int64
}

// Error names the batch and the lines.
func (e *ExistsError) Error() string {
	text := fmt.Sprintf("batch %s exists with other content", e.ID)
	switch {
	case e.First == 0:
		return text
	case e.First == e.Last:
		return fmt.Sprintf("%s: line %d differs", text, e.First)
	}
	return fmt.Sprintf("%s: lines %d to %d differ", text, e.First, e.Last)
}

// Is makes the error match ErrExists.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// differing returns the *ExistsError of a content that is not the batch's. It
// compares the digests of the lines, as far as the batch was written.
func (s *Redis) differing(ctx context.Context, id string, content *Packed) error {
	d, err := s.description(ctx, id)
	if err != nil {
		return err
	}
	there := storedLines{s: s, d: d}
	found := &ExistsError{ID: id}
	err = content.each(func(c packedChunk) error {
		frame, err := content.packer.Unpack(c.packed)
		if err != nil {
			return err
		}
		lines, err := decodeChunk(frame)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if o, err := there.next(ctx); err != nil {
				return err
			} else if o.Number != l.Number || o.Digest != l.Digest {
				found.First, found.Last = c.first, c.last
				return errFound
			}
		}
		return nil
	})
	if err == nil { // the content is the beginning of the batch's
		var o Line
		if o, err = there.next(ctx); err == nil && o.Number > 0 {
			found.First, found.Last = o.Number, there.lines[len(there.lines)-1].Number
		}
	}
	if err != nil && !errors.Is(err, errFound) {
		return fmt.Errorf("compare with batch %s: %w", id, err)
	}
	return found
}

var errFound = errors.New("found")

// storedLines are the lines of a batch as they were written.
type storedLines struct {
	s     *Redis
	d     Description
	chunk int // the next
	at    int // in lines
	lines []Line
}

// next returns the next line; the zero Line: no more is written.
func (t *storedLines) next(ctx context.Context) (Line, error) {
	if t.at == len(t.lines) {
		lines, err := t.s.chunk(ctx, chunkID{t.d.ID, t.d.Digest, strconv.Itoa(t.chunk)})
		if errors.Is(err, ErrNotFound) {
			return Line{}, nil
		}
		if err != nil {
			return Line{}, err
		}
		t.chunk, t.at, t.lines = t.chunk+1, 0, lines
	}
	t.at++
	return t.lines[t.at-1], nil
}
