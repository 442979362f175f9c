package packer

import (
	"bytes"
	"testing"
)

func TestUnpackReturnsWhatWasPacked(t *testing.T) {
	p := New(1 << 20)
	for _, want := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte("answer "), 50_000)} {
		packed := p.Pack(want)
		if got, err := p.Unpack(packed); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back as %d, %v", len(want), len(got), err)
		}
		if len(want) > 1000 && len(packed) > len(want)/100 {
			t.Errorf("%d bytes of one word are packed into %d", len(want), len(packed))
		}
	}
}

func TestUnpackIsBounded(t *testing.T) {
	const bound = 1 << 20
	if _, err := New(bound).Unpack(New(2 * bound).Pack(make([]byte, bound+1))); err == nil {
		t.Error("more than the bound was unpacked")
	}
}

func TestUnpackRefusesDamage(t *testing.T) {
	p := New(1 << 20)
	packed := p.Pack(bytes.Repeat([]byte("answer "), 100))
	for n := 1; n < len(packed); n++ {
		if _, err := p.Unpack(packed[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were unpacked", n, len(packed))
		}
	}
	packed[len(packed)-1] ^= 1 // of the checksum
	if _, err := p.Unpack(packed); err == nil {
		t.Error("a changed byte went unnoticed")
	}
}
