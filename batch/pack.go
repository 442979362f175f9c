package batch

import (
	"context"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"nightshift/internal/packer"
)

// Packed is the content of a file of requests that was checked, as [Redis.Submit]
// writes it. It holds a temporary file where it is more than 512 KiB.
type Packed struct {
	Summary

	name       string
	dictionary []byte // nil: its chunks need none
	packer     packer.Packer
	chunks     spool
	count      int64 // of chunks
}

// Pack is Validate, and keeps what Submit needs, compressed. The caller closes it.
func Pack(ctx context.Context, r *Reader) (*Packed, error) {
	k := &packing{check: newCheck(r), out: &Packed{name: r.name, packer: packer.New(maxDecoded)}}
	err := r.pieces(ctx, k.begin, k.work, k.take)
	if err == nil {
		k.out.Summary, err = k.check.summary()
	}
	if err != nil {
		k.out.Close()
		return nil, err
	}
	return k.out, nil
}

// Close removes what is kept.
func (p *Packed) Close() { p.chunks.close() }

// chunkOverhead is about what Redis takes for a chunk beside its packed lines: its
// places in the batch's hash and in its index (measured: 230 bytes with Redis 7).
const chunkOverhead = 256

// Bytes is about what it takes in Redis.
func (p *Packed) Bytes() int64 {
	return p.chunks.size + p.count*chunkOverhead + int64(len(p.dictionary))
}

// packing is the making of a Packed.
type packing struct {
	check  *check
	out    *Packed
	number int // of the next chunk
}

// begin looks for what the lines have in common.
func (k *packing) begin(first []*piece) {
	var lines [][]byte
	for _, p := range first {
		for _, s := range p.spans {
			lines = append(lines, p.raw[s.from:s.to])
		}
	}
	if d := dictionaryOf(lines, k.out.packer); d != nil {
		k.out.dictionary, k.out.packer = d, packer.WithDictionary(maxDecoded, chunkDictionary, d)
	}
}

// work reads and packs a piece. Lines that are no requests are kept with the
// others, so that their results can be told from them.
func (k *packing) work(p *piece) error {
	k.check.r.read(p)
	if k.check.refused.Load() || len(p.lines) == 0 {
		return nil
	}
	frame, err := encodeChunk(p.frame, p.lines)
	if err != nil {
		return err
	}
	p.frame, p.packed = frame, k.out.packer.Append(p.packed[:0], frame)
	return nil
}

func (k *packing) take(p *piece) error {
	if err := k.check.take(p); err != nil || len(p.lines) == 0 || k.check.refused.Load() {
		return err
	}
	c := chunkOf(k.number, p)
	k.number++
	k.out.count++
	return k.out.chunks.add(c.head(), c.packed)
}

// packedChunk is a chunk as it is written to Redis.
type packedChunk struct {
	number      int
	first, last int64 // line
	lines       int64
	entry       string // in the index
	classes     []classCount
	failed      []failedLine
	packed      []byte
}

// classCount is how many lines of a chunk start at a rung.
type classCount struct{ class, lines int }

// failedLine is a line that has failed before it began.
type failedLine struct {
	line    int64
	message string
}

// maxMessage bounds the message of a failed line, in bytes: a field's name can be long.
const maxMessage = 1000

func chunkOf(number int, p *piece) packedChunk {
	c := packedChunk{
		number: number, first: p.lines[0].Number, last: p.lines[len(p.lines)-1].Number, lines: int64(len(p.lines)), packed: p.packed,
	}
	good := p.requests()
	c.entry, c.classes = indexEntry(number, good), classesOf(good)
	for i, f := range p.facts {
		if f.bad != nil {
			e := LineError{Field: f.bad.Field, Msg: f.bad.Msg}
			c.failed = append(c.failed, failedLine{p.lines[i].Number, clip(e.what())})
		}
	}
	return c
}

// clip bounds a message and makes it text.
func clip(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage] + " …"
	}
	if !utf8.ValidString(message) {
		message = strings.ToValidUTF8(message, "")
	}
	return message
}

// head is what a spool keeps of a chunk before its packed lines.
func (c packedChunk) head() []byte {
	b := make([]byte, 0, 256)
	for _, n := range []int64{int64(c.number), c.first, c.last, c.lines, int64(len(c.classes))} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, k := range c.classes {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(k.class)), uint64(k.lines))
	}
	b = appendField(b, c.entry)
	b = binary.AppendUvarint(b, uint64(len(c.failed)))
	for _, f := range c.failed {
		b = appendField(binary.AppendUvarint(b, uint64(f.line)), f.message)
	}
	return b
}

// decodePacked reads what a spool has of a chunk; packed shares its memory.
func decodePacked(b []byte) packedChunk {
	f := frame{rest: b}
	c := packedChunk{number: int(f.uvarint()), first: int64(f.uvarint()), last: int64(f.uvarint()), lines: int64(f.uvarint())}
	for range f.uvarint() {
		c.classes = append(c.classes, classCount{int(f.uvarint()), int(f.uvarint())})
	}
	c.entry = string(f.field())
	for range f.uvarint() {
		c.failed = append(c.failed, failedLine{int64(f.uvarint()), string(f.field())})
	}
	c.packed = f.rest
	return c
}

// each passes the chunks to read, in their order; what they hold is used again.
func (p *Packed) each(read func(packedChunk) error) error {
	return p.chunks.each(func(b []byte) error { return read(decodePacked(b)) })
}
