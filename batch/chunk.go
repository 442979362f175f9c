package batch

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// The bounds of a chunk (design, section 3); a longer line stands alone.
const (
	chunkLines = 64
	chunkBytes = 256 << 10
)

// The first byte of a decoded chunk is its version. Chunks of the first one had
// no flags; a batch under way outlives an update of its workers.
const (
	chunkVersion  = 2
	chunkFlagless = 1
)

// The flags of a line: whether its NoProbe is set; in the bits above, its goal as
// a place in goals; and whether a schema follows its body.
const (
	chunkNoProbe  = 1
	chunkGoal     = 1 // bits to the left
	chunkGoalMask = 1<<5 - 1
	chunkSchema   = 1 << 6
)

// indexEntry is a chunk in the batch's index: its number and its lines as runs
// "first:count:class", uncompressed, so that scripts can release from it.
func indexEntry(number int, lines []Line) string {
	b := append(strconv.AppendInt(nil, int64(number), 10), ' ')
	for i := 0; i < len(lines); {
		first := lines[i]
		n := 1
		for i+n < len(lines) && lines[i+n].Number == first.Number+int64(n) && lines[i+n].Rung == first.Rung {
			n++
		}
		if i > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%d:%d:%d", first.Number, n, first.Rung)
		i += n
	}
	return string(b)
}

// classesOf counts lines by starting rung.
func classesOf(lines []Line) (out []classCount) {
	for _, l := range lines {
		i := slices.IndexFunc(out, func(c classCount) bool { return c.class == l.Rung })
		if i < 0 {
			i, out = len(out), append(out, classCount{class: l.Rung})
		}
		out[i].lines++
	}
	return out
}

// encodeChunk frames lines: numbers as varints, every field with its length, so
// that a body comes back byte for byte. The frame is put in b, if that has room.
func encodeChunk(b []byte, lines []Line) ([]byte, error) {
	size := 16 + 64*len(lines)
	for _, l := range lines {
		size += lineBytes(l)
	}
	b = append(slices.Grow(b[:0], size), chunkVersion)
	b = binary.AppendUvarint(b, uint64(len(lines)))
	for _, l := range lines {
		b = binary.AppendUvarint(b, uint64(l.Number))
		b = binary.AppendUvarint(b, uint64(l.Rung))
		b = binary.AppendUvarint(b, l.flags())
		b = binary.AppendUvarint(b, uint64(hex.DecodedLen(len(l.Digest))))
		var err error
		if b, err = hex.AppendDecode(b, []byte(l.Digest)); err != nil {
			return nil, fmt.Errorf("encode line %d: digest %q: %w", l.Number, l.Digest, err)
		}
		b = appendField(b, l.CustomID)
		b = appendField(b, l.Endpoint)
		b = appendField(b, l.Metadata)
		b = appendField(b, l.Body)
		if l.Schema != nil {
			b = appendField(b, l.Schema)
		}
	}
	return b, nil
}

func appendField[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func lineBytes(l Line) int {
	return len(l.CustomID) + len(l.Endpoint) + len(l.Body) + len(l.Metadata) + len(l.Schema)
}

func (l Line) flags() uint64 {
	flags := uint64(max(slices.Index(goals, l.Goal), 0)) << chunkGoal
	if l.NoProbe {
		flags |= chunkNoProbe
	}
	if l.Schema != nil {
		flags |= chunkSchema
	}
	return flags
}

func (l *Line) setFlags(flags uint64) (ok bool) {
	l.NoProbe = flags&chunkNoProbe != 0
	goal := flags >> chunkGoal & chunkGoalMask
	if ok = goal < uint64(len(goals)) && flags < 2*chunkSchema; ok {
		l.Goal = goals[goal]
	}
	return ok
}

var errChunk = errors.New("the chunk is damaged or of another version")

// decodeChunk returns the lines of a framed chunk; they share its memory.
func decodeChunk(b []byte) ([]Line, error) {
	d := frame{rest: b}
	version := d.byte()
	n := d.uvarint()
	if version != chunkVersion && version != chunkFlagless || d.bad || n > uint64(len(b)) {
		return nil, errChunk
	}
	lines := make([]Line, 0, n)
	for range n {
		l := Line{Number: int64(d.uvarint()), Rung: int(d.uvarint())}
		var flags uint64
		if version != chunkFlagless {
			flags = d.uvarint()
			d.bad = !l.setFlags(flags) || d.bad
		}
		l.Digest = hex.EncodeToString(d.field())
		l.CustomID = string(d.field())
		l.Endpoint = string(d.field())
		l.Metadata = d.optional()
		l.Body = d.field()
		if flags&chunkSchema != 0 {
			l.Schema = d.field()
		}
		lines = append(lines, l)
	}
	if d.bad || len(d.rest) > 0 {
		return nil, errChunk
	}
	return lines, nil
}

// frame reads what encode wrote; once bad, it yields zero values.
type frame struct {
	rest []byte
	bad  bool
}

func (f *frame) byte() byte {
	if len(f.rest) == 0 {
		f.bad = true
		return 0
	}
	b := f.rest[0]
	f.rest = f.rest[1:]
	return b
}

func (f *frame) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *frame) field() []byte {
	n := f.uvarint()
	if n > uint64(len(f.rest)) {
		f.bad = true
		return nil
	}
	v := f.rest[:n:n]
	f.rest = f.rest[n:]
	return v
}

// optional is a field that is nil where it is empty.
func (f *frame) optional() []byte {
	if v := f.field(); len(v) > 0 {
		return v
	}
	return nil
}
