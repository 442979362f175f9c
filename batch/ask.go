package batch

import (
	"encoding/json"
	"slices"
)

// contents are the cached chunks of a batch's content, by line, and what the
// batch's description said last.
type contents struct {
	digest string
	chunks []*cached
	raw    string
	d      Description
}

// askID names a line's neighbourhood: about the chunk that it is in.
type askID struct {
	batch string
	block int64
}

// What a begin says to have of its line's chunk, unless it has it by a digest.
const (
	askChunk = ""
	noChunk  = "-"
)

// ask returns what a begin says to have of a line's chunk. Of those that lack it
// at the same time, the first alone asks for it, since a chunk is long; the others
// take it from here, or read it themselves. done must be called when the answer is
// in the cache.
func (c *chunkCache) ask(ref Ref) (have string, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[ref.Batch]; k != nil && k.has(ref.Line) {
		return k.digest, func() {}
	}
	id := askID{ref.Batch, ref.Line / chunkLines}
	if c.asked[id] {
		return noChunk, func() {}
	}
	c.asked[id] = true
	return askChunk, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, id)
	}
}

// has says whether a line is in one of the chunks.
func (k *contents) has(line int64) bool {
	i, exact := k.find(line)
	if !exact {
		i--
	}
	if i < 0 {
		return false
	}
	_, err := lineOf(k.chunks[i].lines, line)
	return err == nil
}

// find returns the place of the chunk that begins with a line.
func (k *contents) find(first int64) (i int, exact bool) {
	return slices.BinarySearchFunc(k.chunks, first, func(c *cached, n int64) int {
		switch at := c.lines[0].Number; {
		case at < n:
			return -1
		case at > n:
			return 1
		}
		return 0
	})
}

// index adds a chunk to those of its batch; chunks of other content are no longer
// the batch's. The caller holds the lock.
func (c *chunkCache) index(e *cached) {
	if len(e.lines) == 0 {
		return
	}
	k := c.known[e.id.batch]
	if k == nil || k.digest != e.id.digest {
		k = &contents{digest: e.id.digest}
		c.known[e.id.batch] = k
	}
	if i, exact := k.find(e.lines[0].Number); !exact {
		k.chunks = slices.Insert(k.chunks, i, e)
	}
}

// unindex removes a chunk that is not kept any more. The caller holds the lock.
func (c *chunkCache) unindex(e *cached) {
	k := c.known[e.id.batch]
	if k == nil {
		return
	}
	k.chunks = slices.DeleteFunc(k.chunks, func(o *cached) bool { return o == e })
	if len(k.chunks) == 0 {
		delete(c.known, e.id.batch)
	}
}

// lastDescription is the one of a batch that was read last, as Redis has it and read;
// "": none is.
func (c *chunkCache) lastDescription(batch string) (raw string, d Description) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[batch]; k != nil {
		return k.raw, k.d
	}
	return "", Description{}
}

// describe reads a batch's description, which a begin brings where it is new.
func (c *chunkCache) describe(batch, raw string) (Description, error) {
	var d Description
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
		return Description{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[batch]; k != nil {
		k.raw, k.d = raw, d
	}
	return d, nil
}
