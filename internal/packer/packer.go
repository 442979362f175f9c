// Package packer compresses values for Redis with zstd: small memory first, then
// speed, and a bound on what a value may unpack to.
package packer

import (
	"fmt"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// Packer compresses values. It is safe for concurrent use and holds no goroutines.
type Packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// window is how far back repetitions are looked for: a chunk of a batch, which is
// more than most answers have.
const window = 256 << 10

// New returns a packer of values that may unpack to so many bytes.
func New(longest uint64) Packer { return packer(longest, nil, nil) }

// WithDictionary is New with a dictionary: text that values repeat and that need
// not stand in them then. What is packed names the dictionary by its ID, from
// 32768 up. The packer unpacks what was packed without one too.
func WithDictionary(longest uint64, id uint32, dictionary []byte) Packer {
	return packer(longest,
		[]zstd.EOption{zstd.WithEncoderDictRaw(id, dictionary)},
		[]zstd.DOption{zstd.WithDecoderDictRaw(id, dictionary)})
}

func packer(longest uint64, eopts []zstd.EOption, dopts []zstd.DOption) Packer {
	n := runtime.GOMAXPROCS(0)
	enc := encoder(n, eopts...)
	dec, err := zstd.NewReader(nil, append(dopts, zstd.WithDecoderConcurrency(n), zstd.WithDecoderMaxMemory(longest),
		zstd.WithDecoderLowmem(true))...)
	if err != nil {
		panic("packer: zstd options: " + err.Error())
	}
	return Packer{enc, dec}
}

// encoder returns an encoder for so many goroutines.
func encoder(n int, opts ...zstd.EOption) *zstd.Encoder {
	enc, err := zstd.NewWriter(nil, append(opts, zstd.WithEncoderConcurrency(n), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))...)
	if err != nil {
		panic("packer: zstd options: " + err.Error()) // constants of ours
	}
	return enc
}

// PackedLen is how long a value gets with a dictionary. It takes the memory of one
// goroutine, for those who look for a dictionary.
func PackedLen(b, dictionary []byte) int {
	return len(encoder(1, zstd.WithEncoderDictRaw(1<<15, dictionary)).EncodeAll(b, nil))
}

// Pack compresses a value.
func (p Packer) Pack(b []byte) []byte { return p.Append(nil, b) }

// Append appends a compressed value to dst, which saves memory where dst has room.
func (p Packer) Append(dst, b []byte) []byte { return p.enc.EncodeAll(b, dst) }

// Unpack returns what was packed, or an error for damaged bytes, for those that
// would unpack to more than the packer's bound, and for those that need another
// dictionary.
func (p Packer) Unpack(b []byte) ([]byte, error) {
	out, err := p.dec.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return out, nil
}

// DictionaryOf is the ID of the dictionary that packed bytes need; 0: none.
func DictionaryOf(b []byte) uint32 {
	var h zstd.Header
	if h.Decode(b) != nil {
		return 0 // Unpack says what is wrong
	}
	return h.DictionaryID
}
