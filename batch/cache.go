package batch

import (
	"container/list"
	"sync"

	"golang.org/x/sync/singleflight"
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
}

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
