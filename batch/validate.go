package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Summary is what a first pass over the requests finds.
type Summary struct {
	Lines  int64  // requests
	Digest string // SHA-256 of the content, hex; see Description
}

// Validate reads a source to its end. It returns *LineErrors where lines are no
// requests, a custom_id is repeated, or there is no request at all. It keeps 24
// bytes a line, to find repeated IDs.
//
// The digest covers every request's number and bytes without the line's end.
func Validate(src Source) (Summary, error) {
	var (
		sum  Summary
		bad  LineErrors
		ids  = map[[16]byte]int64{}
		hash = sha256.New()
	)
	for {
		l, raw, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var le *LineError
		if errors.As(err, &le) {
			bad.add(le)
			continue
		}
		if err != nil {
			return Summary{}, err
		}
		sum.Lines++
		addDigest(hash, l.Number, raw)
		id := idHash(l.CustomID)
		if first, ok := ids[id]; ok {
			bad.add(repeated(src, l, first))
			continue
		}
		ids[id] = l.Number
	}
	if sum.Lines == 0 && len(bad.Errs) == 0 {
		bad.add(&LineError{File: nameOf(src), Msg: "there is no request in it"})
	}
	if len(bad.Errs) > 0 {
		return Summary{}, &bad
	}
	sum.Digest = hex.EncodeToString(hash.Sum(nil))
	return sum, nil
}

// idHash is long enough that two IDs of a batch never share one by chance.
func idHash(id string) (h [16]byte) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

func repeated(src Source, l Line, first int64) *LineError {
	return &LineError{
		File: nameOf(src), Line: l.Number, Field: "custom_id",
		Msg: fmt.Sprintf("%q stands on line %d already", l.CustomID, first),
	}
}

func nameOf(src Source) string {
	if n, ok := src.(interface{ Name() string }); ok {
		return n.Name()
	}
	return "input"
}
