package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"strconv"
	"sync/atomic"
)

// Summary is what a pass over the requests finds.
type Summary struct {
	Lines  int64  // requests, and lines that are none where those are skipped
	Digest string // SHA-256 of the content, hex; see Description
	Failed int64  // of Lines, those that are no requests or repeat an ID
}

// Validate reads requests to their end. It returns *LineErrors where lines are no
// requests, a custom_id is repeated, or there is no request at all. It keeps about
// 16 bytes a line, to find repeated IDs.
//
// The digest covers every request's number and bytes without the line's end.
func Validate(r *Reader) (Summary, error) {
	c := newCheck(r)
	err := r.pieces(context.Background(), nil, func(p *piece) error { r.read(p); return nil }, c.take)
	if err != nil {
		return Summary{}, err
	}
	return c.summary()
}

// check looks at the lines of a file in their order.
type check struct {
	r       *Reader
	sum     Summary
	bad     LineErrors
	refused atomic.Bool // there are bad lines, which are not skipped
	ids     idSet
	content hash.Hash
	text    []byte // that was given to it last
}

func newCheck(r *Reader) *check { return &check{r: r, content: sha256.New()} }

// take looks at the lines of the next piece; those that repeat an ID get their error.
func (c *check) take(p *piece) error {
	for i := range p.lines {
		l, f := &p.lines[i], &p.facts[i]
		if l.Number > math.MaxUint32 {
			return &LineError{File: c.r.name, Line: l.Number, Msg: "a file may have so many lines and no more"}
		}
		if c.sum.Lines++; f.bad == nil {
			if first, repeated := c.ids.add(f.id, l.Number); repeated {
				if c.r.SkipInvalid && c.r.Unweigh != nil {
					c.r.Unweigh([]Line{*l})
				}
				f.bad = &LineError{
					File: c.r.name, Line: l.Number, Field: "custom_id",
					Msg: fmt.Sprintf("%q stands on line %d already", l.CustomID, first),
				}
			}
		}
		c.text = digestText(c.text[:0], l.Number, f.sum)
		c.content.Write(c.text)
		if f.bad != nil {
			c.invalid(f.bad)
		}
	}
	return c.end(p.err)
}

func (c *check) invalid(bad *LineError) {
	c.sum.Failed++
	if !c.r.SkipInvalid {
		c.bad.add(bad)
		c.refused.Store(true)
	}
}

// end looks at why a piece is the last, if not for the end of the input. What is
// broken is refused, whether or not lines are skipped.
func (c *check) end(err error) error {
	if bad, ok := err.(*LineError); ok {
		if bad.damage {
			c.bad = LineErrors{}
		}
		c.bad.add(bad)
		c.refused.Store(true)
		return nil
	}
	return err
}

// summary is what was found, or *LineErrors.
func (c *check) summary() (Summary, error) {
	if c.sum.Lines == 0 && len(c.bad.Errs) == 0 {
		c.bad.add(&LineError{File: c.r.name, Msg: "there is no request in it"})
	}
	if len(c.bad.Errs) > 0 {
		return Summary{}, &c.bad
	}
	c.sum.Digest = hex.EncodeToString(c.content.Sum(nil))
	return c.sum, nil
}

// digestText appends what the digest of a content covers of a line: its number and
// the SHA-256 of its bytes without the line's end, so that CRLF, a byte order mark
// and a missing last newline make no difference, and blank lines only where they
// shift numbers.
func digestText(b []byte, number int64, sum [sha256.Size]byte) []byte {
	return append(append(strconv.AppendInt(b, number, 10), ' '), sum[:]...)
}

// digestBytes is how much of a line's SHA-256 its digest is.
const digestBytes = 8

// LineDigest is the request digest of a line: the first 16 hex digits of the
// SHA-256 of its bytes without the line's end.
func LineDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:digestBytes])
}

// hashID is long enough that two IDs of a batch never share one by chance.
func hashID(id string) (h idHash) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}
