package batch

import (
	"context"
	_ "embed" // of the dictionary for records
	"fmt"

	"nightshift/internal/packer"
)

// The IDs of zstd dictionaries: of a batch's own for its chunks, and of the one
// for records. A changed dictionary for records needs another ID.
const (
	chunkDictionary  = 40_001
	recordDictionary = 40_002
)

// recordText is the dictionary for records: the names and values that results of
// every endpoint repeat, then some words of answers, and last, where it costs least
// to point at, the record of a chat completion. A record is packed alone, so that
// without it most of it would be such names. It must never change: records in
// Redis need it byte for byte (TestTheDictionaryForRecordsNeverChanges). A better
// one is another file with an ID of its own beside this one.
//
//go:embed records.dict.txt
var recordText []byte

// The bounds of a batch's dictionary: the longest, and how much smaller it must
// make a chunk, in bytes and as a part of it.
const (
	maxDictionary  = 64 << 10
	dictionarySave = 256
	dictionaryPart = 16
)

// dictionaryOf returns a dictionary for lines like these: one of them, which has
// what they share. It is nil where that saves too little.
func dictionaryOf(lines [][]byte, plain packer.Packer) []byte {
	n := len(lines)
	if n < 2 {
		return nil
	}
	var sample []byte
	for _, l := range lines[(n+1)/2:] {
		if len(sample)+len(l) > chunkBytes {
			l = l[:chunkBytes-len(sample)]
		}
		sample = append(sample, l...)
	}
	without := len(plain.Pack(sample))
	least := without - max(dictionarySave, without/dictionaryPart)
	var best []byte
	for _, i := range []int{0, n / 4} {
		d := lines[i][:min(len(lines[i]), maxDictionary)]
		if len(d) < dictionarySave {
			continue
		}
		if n := packer.PackedLen(sample, d); n < least {
			least, best = n, d
		}
	}
	return append([]byte(nil), best...)
}

// keepDictionary writes a batch's dictionary before its first chunk, and returns
// the one that is there, which never changes.
func (s *Redis) keepDictionary(ctx context.Context, id string, d []byte) ([]byte, error) {
	if d == nil {
		return nil, nil
	}
	k := key(id, "dict")
	if err := s.rdb.SetNX(ctx, k, s.packer.Pack(d), 0).Err(); err != nil {
		return nil, fmt.Errorf("write dictionary: %w", err)
	}
	return s.dictionary(ctx, id)
}

func (s *Redis) dictionary(ctx context.Context, id string) ([]byte, error) {
	packed, err := s.rdb.Get(ctx, key(id, "dict")).Bytes()
	if isNil(err) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read dictionary: %w", err)
	}
	return s.packer.Unpack(packed)
}

// unpack returns what was packed of a batch's content: a chunk of its lines, or a
// record. Whoever reads either comes through here. The dictionary of a batch is
// read once, while that of few others is read.
func (s *Redis) unpack(ctx context.Context, batch, digest string, packed []byte) ([]byte, error) {
	switch id := packer.DictionaryOf(packed); id {
	case 0: // records had none at first
		return s.packer.Unpack(packed)
	case recordDictionary:
		return s.records.Unpack(packed)
	case chunkDictionary:
	default:
		return nil, fmt.Errorf("it needs the dictionary %d, which this version does not have: update it", id)
	}
	p, err := s.cache.dictionary(batch+" "+digest, func() (packer.Packer, error) {
		d, err := s.dictionary(ctx, batch)
		if err != nil {
			return packer.Packer{}, err
		}
		return packer.WithDictionary(maxDecoded, chunkDictionary, d), nil
	})
	if err != nil {
		return nil, err
	}
	return p.Unpack(packed)
}
