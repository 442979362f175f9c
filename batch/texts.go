package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// A Preset makes the result of a line that gets an answer without a model. It
// is false where there is none for the line. It must be safe for concurrent use.
type Preset func(Description, Ref, Line, Progress) (Result, bool)

const (
	// textChunks is how many chunks one call of Texts looks at, and textParallel
	// how many of them at a time: one waits for Redis while another is packed.
	textChunks   = 64
	textParallel = 8
)

// Texts ends lines with the results of a preset, as succeeded and degraded: of a
// piece of the batch, from its chunk number from on, those that have no record
// and that no live lease holds, released or not. It returns where the next piece
// begins, 0 after the last, and how many lines it ended. From the deadline on it
// ends none. An epoch smaller than the last seen is ErrFenced.
func (s *Redis) Texts(ctx context.Context, id string, epoch int64, from int, preset Preset) (next, ended int, err error) {
	d, err := s.description(ctx, id)
	if err != nil {
		return from, 0, fmt.Errorf("write texts of %s: %w", id, err)
	}
	entries, err := s.rdb.ZRange(ctx, key(id, "index"), int64(from), int64(from+textChunks-1)).Result()
	if err != nil {
		return from, 0, fmt.Errorf("write texts of %s: %w", id, err)
	}
	var n atomic.Int64
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(textParallel)
	for _, e := range entries {
		g.Go(func() error {
			number, _, ok := strings.Cut(e, " ")
			if !ok {
				return errors.New("the batch's index is damaged")
			}
			lines, err := s.chunk(all, chunkID{id, d.Digest, number})
			if err != nil {
				return err
			}
			got, err := s.writeTexts(all, d, epoch, lines, preset)
			n.Add(int64(got))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return from, int(n.Load()), fmt.Errorf("write texts of %s: %w", id, err)
	}
	if len(entries) == textChunks {
		next = from + textChunks
	}
	return next, int(n.Load()), nil
}

// TextsOut is Texts for the released lines alone, however many chunks the batch
// has: for those that were held when the pieces passed them.
func (s *Redis) TextsOut(ctx context.Context, id string, epoch int64, preset Preset) (ended int, err error) {
	out, err := s.Out(ctx, id)
	if err != nil {
		return 0, err
	}
	d, err := s.description(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("write texts of %s: %w", id, err)
	}
	for _, e := range out {
		if e.Leased {
			continue
		}
		lines, err := s.chunkAt(ctx, d, e.Ref.Line)
		if err == nil {
			var l Line
			if l, err = lineOf(lines, e.Ref.Line); err == nil {
				var n int
				n, err = s.writeTexts(ctx, d, epoch, []Line{l}, preset)
				ended += n
			}
		}
		if err != nil {
			return ended, fmt.Errorf("write text of %s: %w", e.Ref, err)
		}
	}
	return ended, nil
}

// writeTexts ends those of some lines of a batch that may be ended.
func (s *Redis) writeTexts(ctx context.Context, d Description, epoch int64, lines []Line, preset Preset) (int, error) {
	numbers := []any{s.nowArg()}
	for _, l := range lines {
		numbers = append(numbers, l.Number, l.Rung)
	}
	found, err := s.scripts.undone.Run(ctx, s.rdb, []string{metaKey(d.ID)}, numbers...).StringSlice()
	if err != nil {
		return 0, err
	}
	args := []any{s.nowArg(), epoch}
	for ; len(found) > 0; found = found[undoneFields:] {
		t, err := s.text(d, lines, found, preset)
		if err != nil {
			return 0, err
		}
		if t.packed != nil {
			args = append(args, found[0], t.class, found[1], found[2], found[3], t.packed, t.model)
		}
	}
	if len(args) == 2 {
		return 0, nil
	}
	n, err := s.scripts.answer.Run(ctx, s.rdb, []string{metaKey(d.ID)}, args...).Int()
	if err == nil && n < 0 {
		n, err = 0, ErrFenced
	}
	return n, err
}

// undoneFields is how many values undone.lua returns for a line: its number,
// generation, calls, deferrals and progress.
const undoneFields = 5

// textRecord is what answer.lua writes of a line.
type textRecord struct {
	packed []byte // the record
	class  int
	model  string // who answered
}

// text is the record of one line that undone.lua found; it is empty where the
// preset has none.
func (s *Redis) text(d Description, lines []Line, found []string, preset Preset) (textRecord, error) {
	number, err := strconv.ParseInt(found[0], 10, 64)
	if err != nil {
		return textRecord{}, err
	}
	l, err := lineOf(lines, number)
	if err != nil {
		return textRecord{}, err
	}
	ref := Ref{Batch: d.ID, Line: number}
	if ref.Generation, err = strconv.Atoi(found[1]); err != nil {
		return textRecord{}, err
	}
	var p Progress
	if body := found[4]; body != "" {
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			return textRecord{}, fmt.Errorf("read progress of line %d: %w", number, err)
		}
	}
	r, ok := preset(d, ref, l, p)
	if !ok {
		return textRecord{}, nil
	}
	r.Nightshift.Generation = ref.Generation
	js, err := r.Encode()
	if err != nil {
		return textRecord{}, err
	}
	return textRecord{s.records.Pack(js), l.Rung, r.Nightshift.Model}, nil
}
