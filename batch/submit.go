package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"nightshift/internal/packer"
)

// The bounds of one round trip while a backlog is written.
const (
	groupChunks = 64
	groupBytes  = 1 << 20
)

// duplicateFor is how long the same content is refused.
const duplicateFor = 24 * time.Hour

// DuplicateError is ErrDuplicate with the batch that has the same content.
type DuplicateError struct {
	ID string
	At time.Time
}

// Error names the other batch.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s, as batch %s at %s", ErrDuplicate, e.ID, e.At.UTC().Format(time.RFC3339))
}

// Is makes the error match ErrDuplicate.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// Submission is how Submit goes.
type Submission struct {
	// Opened is called when the batch is there and none of its lines can run, also
	// where it was begun before. nil: nobody asks.
	Opened func() error
	// Progress is called with the number of lines written; an interrupted
	// submission starts where it stood. nil: nobody asks.
	Progress func(lines int64)
}

// Submit writes a content to the backlog and makes the batch visible to the keeper
// once all is written; d.Total and d.Digest are the content's.
//
// Submitting the same ID and content again adds what is missing and keeps the
// first description. Other content under the ID is an *ExistsError (ErrExists);
// the same content under another ID within 24 h is a *DuplicateError
// (ErrDuplicate) unless d.Again; a batch cancelled meanwhile is ErrCancelled.
func (s *Redis) Submit(ctx context.Context, d Description, content *Packed, o Submission) error {
	if err := CheckID(d.ID); err != nil {
		return err
	}
	d.Total, d.Digest = content.Lines, content.Digest
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	if o.Opened == nil {
		o.Opened = func() error { return nil }
	}
	committed, err := s.openBatch(ctx, &d)
	if errors.Is(err, ErrExists) {
		err = s.differing(ctx, d.ID, content)
	}
	if err == nil && !committed {
		if err = o.Opened(); err == nil {
			err = s.write(ctx, d, content, o.Progress)
		}
	}
	if err != nil {
		return fmt.Errorf("submit batch %s: %w", d.ID, err)
	}
	o.Progress(d.Total)
	return nil
}

// openBatch creates the batch or finds it begun; it fills in d.CreatedAt.
func (s *Redis) openBatch(ctx context.Context, d *Description) (committed bool, err error) {
	now, err := s.now(ctx)
	if err != nil {
		return false, err
	}
	// An ID that is taken has its answer whatever its content.
	known, err := s.rdb.Exists(ctx, metaKey(d.ID)).Result()
	if err != nil {
		return false, err
	}
	if known == 0 {
		if err := s.claimContent(ctx, *d, now); err != nil {
			return false, err
		}
		if d.CreatedAt.IsZero() {
			d.CreatedAt = now
		}
	}
	js, err := json.Marshal(d)
	if err != nil {
		return false, err
	}
	v, err := s.scripts.open.Run(ctx, s.rdb, []string{metaKey(d.ID)},
		s.nowArg(), d.Digest, d.Total, ms(d.Deadline), ms(d.CreatedAt), js).Slice()
	if err != nil {
		return false, err
	}
	switch v[0].(int64) {
	case 4:
		return false, ErrExists
	case 5:
		return false, ErrCancelled
	case 6:
		return false, ErrDeleting
	case 3:
		committed = true
	}
	created, err := strconv.ParseFloat(v[1].(string), 64)
	if err != nil {
		return false, err
	}
	return committed, s.enlist(ctx, d.ID, created, committed)
}

// enlist puts the batch into the indexes, which are in other slots of a cluster.
func (s *Redis) enlist(ctx context.Context, id string, created float64, committed bool) error {
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAddNX(ctx, allKey, redis.Z{Score: created, Member: id})
		if !committed {
			p.ZAddNX(ctx, liveKey, redis.Z{Score: created, Member: id})
		}
		return nil
	})
	return err
}

// claimContent notes that this batch has this content, or returns the batch
// that had it within the last 24 h. The key's TTL is only garbage collection.
func (s *Redis) claimContent(ctx context.Context, d Description, now time.Time) error {
	k := contentKey(d.Digest)
	mine := d.ID + " " + strconv.FormatInt(now.UnixMilli(), 10)
	if !d.Again {
		won, err := s.rdb.SetNX(ctx, k, mine, 2*duplicateFor).Result()
		if err != nil || won {
			return err
		}
		v, err := s.rdb.Get(ctx, k).Result()
		if err != nil && !isNil(err) {
			return err
		}
		if err := s.sameContent(ctx, d, v, now); err != nil {
			return err
		}
	}
	return s.rdb.Set(ctx, k, mine, 2*duplicateFor).Err()
}

// sameContent returns a *DuplicateError where a claim is that of another batch
// within the last 24 h.
func (s *Redis) sameContent(ctx context.Context, d Description, claim string, now time.Time) error {
	id, at, _ := strings.Cut(claim, " ")
	since, _ := strconv.ParseInt(at, 10, 64)
	if id == d.ID || now.Sub(fromMS(since)) >= duplicateFor {
		return nil
	}
	known, err := s.rdb.Exists(ctx, metaKey(id)).Result()
	if err == nil && known > 0 {
		err = &DuplicateError{id, fromMS(since)}
	}
	return err
}

// CheckContent returns the *DuplicateError that Submit would, so that nothing
// else is asked first about a batch that is not taken anyway.
func (s *Redis) CheckContent(ctx context.Context, d Description) error {
	if d.Again {
		return nil
	}
	now, err := s.now(ctx)
	if err != nil {
		return fmt.Errorf("look for the same content: %w", err)
	}
	v, err := s.rdb.Get(ctx, contentKey(d.Digest)).Result()
	if isNil(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the same content: %w", err)
	}
	return s.sameContent(ctx, d, v, now)
}

// entries returns the chunks that are written already, by their index entries.
func (s *Redis) entries(ctx context.Context, id string) (map[string]bool, error) {
	all, err := s.rdb.ZRange(ctx, key(id, "index"), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	have := make(map[string]bool, len(all))
	for _, e := range all {
		have[e] = true
	}
	return have, nil
}

// Missing is about how many bytes of a content Redis has yet to take: of a batch
// that is there completely none, of one whose submission was interrupted the rest.
func (s *Redis) Missing(ctx context.Context, id string, content *Packed) (int64, error) {
	st, err := s.Status(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return content.Bytes(), nil
	case err != nil || st.State != Enqueuing:
		return 0, err
	}
	have, err := s.entries(ctx, id)
	if err != nil {
		return 0, err
	}
	missing := int64(0)
	err = content.each(func(c packedChunk) error {
		if !have[c.entry] {
			missing += int64(len(c.packed)) + chunkOverhead
		}
		return nil
	})
	return missing, err
}

// group is the chunks of one round trip, which one run of the script adds.
type group struct {
	args   []any
	chunks int
	bytes  int
	lines  int64
}

// write writes the chunks that are missing, one group on its way while the next
// is read, and makes the batch visible.
func (s *Redis) write(ctx context.Context, d Description, content *Packed, progress func(int64)) error {
	have, err := s.entries(ctx, d.ID)
	if err != nil {
		return err
	}
	repack, err := s.withDictionary(ctx, d.ID, content)
	if err != nil {
		return err
	}
	groups := make(chan group)
	g, both := errgroup.WithContext(ctx)
	chunks := 0
	g.Go(func() error {
		defer close(groups)
		var gr group
		send := func() error {
			select {
			case groups <- gr:
				gr = group{}
				return nil
			case <-both.Done():
				return both.Err()
			}
		}
		err := content.each(func(c packedChunk) error {
			chunks++
			gr.lines += c.lines
			if !have[c.entry] {
				packed, err := repack(c.packed)
				if err != nil {
					return err
				}
				gr.add(c, packed)
			}
			if gr.chunks < groupChunks && gr.bytes < groupBytes {
				return nil
			}
			return send()
		})
		if err != nil {
			return err
		}
		return send()
	})
	g.Go(func() error {
		var lines int64
		for gr := range groups {
			if err := s.put(both, d, gr.args); err != nil {
				return err
			}
			lines += gr.lines
			progress(lines)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return s.commit(ctx, d, chunks)
}

// withDictionary writes the content's dictionary and returns how its chunks are
// to be stored: as they are, unless the batch was begun with another dictionary,
// by another version of this program. What it returns is the caller's.
func (s *Redis) withDictionary(ctx context.Context, id string, content *Packed) (func([]byte) ([]byte, error), error) {
	there, err := s.keepDictionary(ctx, id, content.dictionary)
	if err != nil || bytes.Equal(there, content.dictionary) {
		return func(b []byte) ([]byte, error) { return bytes.Clone(b), nil }, err
	}
	other := packer.WithDictionary(maxDecoded, chunkDictionary, there)
	return func(b []byte) ([]byte, error) {
		frame, err := content.packer.Unpack(b)
		return other.Pack(frame), err
	}, nil
}

// add adds a chunk.
func (gr *group) add(c packedChunk, packed []byte) {
	gr.args = append(gr.args, c.number, c.first, c.entry, packed, len(c.classes), len(c.failed))
	for _, k := range c.classes {
		gr.args = append(gr.args, k.class, k.lines)
	}
	for _, f := range c.failed {
		gr.args = append(gr.args, f.line, f.message)
	}
	gr.chunks++
	gr.bytes += len(packed)
}

// put writes chunks; those that are there already stay as they are.
func (s *Redis) put(ctx context.Context, d Description, chunks []any) error {
	if len(chunks) == 0 {
		return nil
	}
	code, err := s.scripts.put.Run(ctx, s.rdb, []string{metaKey(d.ID)}, append([]any{s.nowArg(), d.Digest}, chunks...)...).Int()
	if err != nil {
		return fmt.Errorf("write backlog: %w", err)
	}
	switch code {
	case 3:
		return fmt.Errorf("%w: its lines were cut differently, by another version of this program or for another ladder", ErrExists)
	case 4:
		return ErrCancelled
	case 5:
		return fmt.Errorf("write backlog: %w", ErrNotFound)
	}
	return nil
}

func (s *Redis) commit(ctx context.Context, d Description, chunks int) error {
	code, err := s.scripts.commit.Run(ctx, s.rdb, []string{metaKey(d.ID)}, s.nowArg(), d.Digest, chunks).Int()
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	switch code {
	case 2:
		return errors.New("commit: the backlog is not complete; submit again")
	case 4:
		return ErrCancelled
	case 5:
		return fmt.Errorf("commit: %w", ErrNotFound)
	}
	return nil
}
