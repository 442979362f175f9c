package schema

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// cacheText is how much schema a cache keeps, by the length of the texts. A
// compiled schema takes up to about a hundred times its text.
const cacheText = 1 << 20

// Cache keeps compiled schemas by what they say, those that were asked for last.
// It is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*list.Element
	used  *list.List // of *entry, the last used first
	text  int
}

type entry struct {
	key    [sha256.Size]byte
	length int
	schema *Schema
	err    error
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{byKey: map[[sha256.Size]byte]*list.Element{}, used: list.New()}
}

// Compile is [Compile], once for each text while it is kept. A text that does
// not compile is kept too.
func (c *Cache) Compile(text []byte) (*Schema, error) {
	key := sha256.Sum256(text)
	if e := c.find(key); e != nil {
		return e.schema, e.err
	}
	s, err := Compile(text) // two may compile the same at once; either will do
	c.keep(&entry{key, len(text), s, err})
	return s, err
}

func (c *Cache) find(key [sha256.Size]byte) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[key]
	if el == nil {
		return nil
	}
	c.used.MoveToFront(el)
	return el.Value.(*entry)
}

func (c *Cache) keep(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[e.key] != nil || e.length > MaxText {
		return
	}
	c.byKey[e.key] = c.used.PushFront(e)
	c.text += e.length
	for c.text > cacheText {
		oldest := c.used.Remove(c.used.Back()).(*entry)
		delete(c.byKey, oldest.key)
		c.text -= oldest.length
	}
}
