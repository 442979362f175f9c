package batch

import (
	"fmt"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// maxDecoded bounds what one compressed value may unpack to: the longest line
// with its frame, or a record of a line and its answer.
const maxDecoded = 64 << 20

// codec compresses chunks and records. It is safe for concurrent use and holds
// no goroutines.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() codec {
	n := runtime.GOMAXPROCS(0)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(n), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(chunkBytes), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("batch: zstd options: " + err.Error()) // constants of ours
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(n), zstd.WithDecoderMaxMemory(maxDecoded),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("batch: zstd options: " + err.Error())
	}
	return codec{enc, dec}
}

func (c codec) pack(b []byte) []byte { return c.enc.EncodeAll(b, nil) }

func (c codec) unpack(b []byte) ([]byte, error) {
	out, err := c.dec.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return out, nil
}
