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
func New(longest uint64) Packer {
	n := runtime.GOMAXPROCS(0)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(n), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("packer: zstd options: " + err.Error()) // constants of ours
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(n), zstd.WithDecoderMaxMemory(longest),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("packer: zstd options: " + err.Error())
	}
	return Packer{enc, dec}
}

// Pack compresses a value.
func (p Packer) Pack(b []byte) []byte { return p.enc.EncodeAll(b, nil) }

// Unpack returns what was packed, or an error for damaged bytes and for those
// that would unpack to more than the packer's bound.
func (p Packer) Unpack(b []byte) ([]byte, error) {
	out, err := p.dec.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return out, nil
}
