package batch

import "encoding/binary"

// idHash is what an idSet knows an ID by: the first bytes of its SHA-256.
type idHash [16]byte

// idShards is how many tables an idSet has. Each grows alone, so that growing
// takes little room.
const idShards = 4096

// idSet is the IDs of a file, each with the line where it stands first. An ID
// takes about 16 bytes: 12 of the entry and the free places. The place in the set
// and the entry together are 76 bits of the ID's hash, so that two of a million
// IDs share them once in 10^11 files. Lines are numbered up to 2^32-1.
type idSet struct {
	shards [idShards]idShard
}

// idShard is a table with linear probing; a line of 0 is a free place.
type idShard struct {
	n      int
	hashes []uint64
	lines  []uint32
}

// add notes the line of an ID, or returns the line that has it already.
func (s *idSet) add(id idHash, line int64) (first int64, repeated bool) {
	shard := &s.shards[binary.LittleEndian.Uint16(id[:2])%idShards]
	hash := binary.LittleEndian.Uint64(id[8:])
	if len(shard.lines)*7 <= shard.n*8 { // at most seven eighths are taken
		shard.grow()
	}
	i, found := shard.find(hash)
	if found {
		return int64(shard.lines[i]), true
	}
	shard.hashes[i], shard.lines[i] = hash, uint32(line)
	shard.n++
	return line, false
}

// find returns the place of a hash, or the one where it belongs.
func (s *idShard) find(hash uint64) (i int, found bool) {
	for i = int(hash % uint64(len(s.lines))); s.lines[i] != 0; i = (i + 1) % len(s.lines) {
		if s.hashes[i] == hash {
			return i, true
		}
	}
	return i, false
}

// grow makes the table an eighth larger.
func (s *idShard) grow() {
	old := *s
	size := max(8, len(old.lines)*9/8)
	s.hashes, s.lines = make([]uint64, size), make([]uint32, size)
	for i, line := range old.lines {
		if line != 0 {
			j, _ := s.find(old.hashes[i])
			s.hashes[j], s.lines[j] = old.hashes[i], line
		}
	}
}
