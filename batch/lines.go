package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// chunk returns the lines of one chunk, from the cache where it has them.
func (s *Redis) chunk(ctx context.Context, id chunkID) ([]Line, error) {
	return s.cache.get(id, func() ([]Line, error) {
		packed, err := s.rdb.HGet(ctx, key(id.batch, "chunks"), id.chunk).Bytes()
		if isNil(err) {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("read chunk %s: %w", id.chunk, err)
		}
		return s.decode(ctx, id, packed)
	})
}

// chunkSent is chunk where the packed lines are at hand; empty: they are not.
func (s *Redis) chunkSent(ctx context.Context, id chunkID, packed string) ([]Line, error) {
	if packed == "" {
		return s.chunk(ctx, id)
	}
	return s.cache.get(id, func() ([]Line, error) { return s.decode(ctx, id, []byte(packed)) })
}

func (s *Redis) decode(ctx context.Context, id chunkID, packed []byte) ([]Line, error) {
	frame, err := s.unpack(ctx, id.batch, id.digest, packed)
	if err != nil {
		return nil, fmt.Errorf("read chunk %s: %w", id.chunk, err)
	}
	lines, err := decodeChunk(frame)
	if err != nil {
		return nil, fmt.Errorf("read chunk %s: %w", id.chunk, err)
	}
	return lines, nil
}

func lineOf(lines []Line, number int64) (Line, error) {
	i, ok := slices.BinarySearchFunc(lines, number, func(l Line, n int64) int {
		switch {
		case l.Number < n:
			return -1
		case l.Number > n:
			return 1
		}
		return 0
	})
	if !ok {
		return Line{}, fmt.Errorf("line %d: %w", number, ErrNotFound)
	}
	return lines[i], nil
}

// Request returns the line as it was submitted, whatever became of it.
// ErrNotFound: there is no such line or batch.
func (s *Redis) Request(ctx context.Context, ref Ref) (Line, error) {
	d, err := s.description(ctx, ref.Batch)
	if err != nil {
		return Line{}, fmt.Errorf("read request %s: %w", ref, err)
	}
	lines, err := s.chunkAt(ctx, d, ref.Line)
	if err == nil {
		var l Line
		if l, err = lineOf(lines, ref.Line); err == nil {
			return l, nil
		}
	}
	return Line{}, fmt.Errorf("read request %s: %w", ref, err)
}

func (s *Redis) description(ctx context.Context, id string) (Description, error) {
	var d Description
	js, err := s.rdb.HGet(ctx, metaKey(id), "d").Bytes()
	if isNil(err) {
		return d, ErrNotFound
	}
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(js, &d)
}

// chunkAt returns the lines of the chunk that holds a line.
func (s *Redis) chunkAt(ctx context.Context, d Description, line int64) ([]Line, error) {
	entries, err := s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: key(d.ID, "index"), Start: strconv.FormatInt(line, 10), Stop: "-inf",
		ByScore: true, Rev: true, Count: 1,
	}).Result()
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, ErrNotFound
	}
	number, _, ok := strings.Cut(entries[0], " ")
	if !ok {
		return nil, errors.New("the batch's index is damaged")
	}
	return s.chunk(ctx, chunkID{d.ID, d.Digest, number})
}
