package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
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

// Submit writes the lines of src to the backlog and makes the batch visible to
// the keeper once all are written. d.Total and d.Digest are those that Validate
// found; a file that changed since is an error.
//
// Submitting the same ID and content again adds what is missing and keeps the
// first description. Other content under the ID is ErrExists; the same content
// under another ID within 24 h is a *DuplicateError (ErrDuplicate) unless
// d.Again; a batch cancelled meanwhile is ErrCancelled.
//
// progress, which may be nil, is called with the number of lines written; an
// interrupted submission starts where it stood.
func (s *Redis) Submit(ctx context.Context, d Description, src Source, progress func(lines int64)) error {
	if err := CheckID(d.ID); err != nil {
		return err
	}
	if d.Total <= 0 || d.Digest == "" {
		return fmt.Errorf("submit batch %s: no lines", d.ID)
	}
	if progress == nil {
		progress = func(int64) {}
	}
	committed, err := s.openBatch(ctx, &d)
	if err != nil {
		return fmt.Errorf("submit batch %s: %w", d.ID, err)
	}
	if committed {
		progress(d.Total)
		return nil
	}
	if err := s.write(ctx, d, src, progress); err != nil {
		return fmt.Errorf("submit batch %s: %w", d.ID, err)
	}
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

// group is the chunks of one round trip.
type group struct {
	calls []scriptCall
	bytes int
	lines int64
}

// write streams the lines into chunks and the chunks to Redis, one group being
// written while the next is packed; memory stays at a few groups.
func (s *Redis) write(ctx context.Context, d Description, src Source, progress func(int64)) error {
	have, err := s.entries(ctx, d.ID)
	if err != nil {
		return err
	}
	groups := make(chan group)
	g, both := errgroup.WithContext(ctx)
	var chunks int
	g.Go(func() error {
		defer close(groups)
		var err error
		chunks, err = s.packAll(both, d, src, have, groups)
		return err
	})
	g.Go(func() error {
		var lines int64
		for gr := range groups {
			if err := s.put(both, gr.calls); err != nil {
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

// packAll reads the source to its end and returns the number of chunks.
func (s *Redis) packAll(ctx context.Context, d Description, src Source, have map[string]bool, groups chan<- group) (int, error) {
	var (
		c      chunk
		gr     group
		total  int64
		digest = sha256.New()
	)
	next := func(last bool) error {
		if err := s.pack(d, &c, &gr, have[c.entry()]); err != nil {
			return err
		}
		if !last && len(gr.calls) < groupChunks && gr.bytes < groupBytes {
			return nil
		}
		select {
		case groups <- gr:
			gr = group{}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		l, raw, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		addDigest(digest, l.Number, raw)
		total++
		if c.full(lineBytes(l)) {
			if err := next(false); err != nil {
				return 0, err
			}
		}
		c.add(l)
	}
	if total != d.Total || hex.EncodeToString(digest.Sum(nil)) != d.Digest {
		return 0, errors.New("the file changed while it was read")
	}
	err := next(true)
	return c.number, err
}

// pack moves the chunk's lines into the group, unless they are there already,
// and starts the next chunk.
func (s *Redis) pack(d Description, c *chunk, gr *group, have bool) error {
	gr.lines += int64(len(c.lines))
	defer func() { *c = chunk{number: c.number + 1, lines: c.lines[:0]} }()
	if have {
		return nil
	}
	frame, err := c.encode()
	if err != nil {
		return err
	}
	packed := s.packer.Pack(frame)
	args := []any{d.Digest, c.number, c.lines[0].Number, c.entry(), packed}
	for class, n := range c.classes() {
		args = append(args, class, n)
	}
	gr.calls = append(gr.calls, scriptCall{d.ID, args})
	gr.bytes += len(packed)
	return nil
}

// put writes chunks; those that are there already stay as they are.
func (s *Redis) put(ctx context.Context, calls []scriptCall) error {
	if len(calls) == 0 {
		return nil
	}
	cmds, err := s.runMany(ctx, s.scripts.put, calls)
	if err != nil {
		return fmt.Errorf("write backlog: %w", err)
	}
	for _, c := range cmds {
		code, err := c.Int()
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
	}
	return nil
}

func (s *Redis) commit(ctx context.Context, d Description, chunks int) error {
	code, err := s.scripts.commit.Run(ctx, s.rdb, []string{metaKey(d.ID)}, d.Digest, chunks).Int()
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

// addDigest adds a line to the digest of a content: its number and its bytes
// without the line's end, so that CRLF, a byte order mark and a missing last
// newline make no difference, and blank lines only where they shift numbers.
func addDigest(h hash.Hash, number int64, raw []byte) {
	var b [24]byte
	h.Write(append(strconv.AppendInt(b[:0], number, 10), ' '))
	h.Write(raw)
	h.Write([]byte{'\n'})
}

// LineDigest is the request digest of a line: the first 16 hex digits of the
// SHA-256 of its bytes without the line's end.
func LineDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
