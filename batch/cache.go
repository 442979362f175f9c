package batch

import (
	"container/list"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"

	"nightshift/internal/packer"
)

// chunkID names a chunk. It has the content's digest because an ID of a batch
// can be used again for other content.
type chunkID struct {
	batch, digest, chunk string
}

func (k chunkID) String() string { return k.batch + " " + k.digest + " " + k.chunk }

// chunkCache keeps decoded chunks, the last used first, up to a number of
// bytes. Lines run in file order, so a chunk is needed by its next lines soon.
type chunkCache struct {
	flight singleflight.Group

	mu    sync.Mutex
	limit int64
	size  int64
	order *list.List // of *cached
	byID  map[chunkID]*list.Element
	known map[string]*contents // by batch, of those with a chunk here
	asked map[askID]bool
	// dictionaries of contents, by the packers that have them, the last loaded last.
	dictionaries []contentPacker
}

// contentPacker is a batch's content and the packer with its dictionary.
type contentPacker struct {
	content string
	packer  packer.Packer
}

// maxDictionaries is how many packers are kept; one takes about a megabyte.
const maxDictionaries = 16

type cached struct {
	id    chunkID
	lines []Line
	size  int64
}

func newChunkCache(limit int64) *chunkCache {
	return &chunkCache{
		limit: limit, order: list.New(), byID: map[chunkID]*list.Element{},
		known: map[string]*contents{}, asked: map[askID]bool{},
	}
}

// get returns the chunk's lines, loading them once however many ask.
func (c *chunkCache) get(id chunkID, load func() ([]Line, error)) ([]Line, error) {
	if lines, ok := c.lookup(id); ok {
		return lines, nil
	}
	v, err, _ := c.flight.Do(id.String(), func() (any, error) {
		if lines, ok := c.lookup(id); ok {
			return lines, nil
		}
		lines, err := load()
		if err == nil {
			c.add(id, lines)
		}
		return lines, err
	})
	lines, _ := v.([]Line)
	return lines, err
}

func (c *chunkCache) lookup(id chunkID) ([]Line, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).lines, true
}

func (c *chunkCache) add(id chunkID, lines []Line) {
	size := int64(512)
	for _, l := range lines {
		size += int64(lineBytes(l)) + 192
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := &cached{id, lines, size}
	c.byID[id] = c.order.PushFront(entry)
	c.index(entry)
	c.size += size
	for c.size > c.limit && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.byID, last.id)
		c.unindex(last)
		c.size -= last.size
	}
}

// dictionary returns the packer with the dictionary of a content, loading it once
// however many ask.
func (c *chunkCache) dictionary(content string, load func() (packer.Packer, error)) (packer.Packer, error) {
	if p, ok := c.packer(content); ok {
		return p, nil
	}
	v, err, _ := c.flight.Do("dictionary "+content, func() (any, error) {
		if p, ok := c.packer(content); ok {
			return p, nil
		}
		p, err := load()
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			drop := max(0, len(c.dictionaries)+1-maxDictionaries)
			c.dictionaries = append(c.dictionaries[drop:], contentPacker{content, p})
		}
		return p, err
	})
	p, _ := v.(packer.Packer)
	return p, err
}

func (c *chunkCache) packer(content string) (packer.Packer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.dictionaries, func(p contentPacker) bool { return p.content == content })
	if i < 0 {
		return packer.Packer{}, false
	}
	return c.dictionaries[i].packer, true
}
