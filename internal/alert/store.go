package alert

import (
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/notify"
)

var (
	//go:embed lua/save.lua
	saveLua string
	//go:embed lua/swap.lua
	swapLua string
)

const (
	knownKey    = "nightshift:{fleet}:alerts"
	messagesKey = "nightshift:{fleet}:alerts:messages"
	ofKnown     = "o " // before the keys of occurrences
)

// errFenced: a later keeper has written.
var errFenced = errors.New("another worker is the keeper by now")

// store keeps occurrences and messages in Redis.
type store struct {
	rdb        redis.UniversalClient
	now        func() time.Time // nil: Redis's clock
	save, swap *redis.Script
}

func newStore(rdb redis.UniversalClient, now func() time.Time) *store {
	return &store{rdb, now, redis.NewScript(saveLua), redis.NewScript(swapLua)}
}

// letter is a message to one receiver, as it stands in Redis; times are ms.
type letter struct {
	ID      string          `json:"id"`
	Title   string          `json:"title"`
	Facts   []notify.Fact   `json:"facts,omitempty"`
	Body    json.RawMessage `json:"body"`
	Created int64           `json:"created"`
	Tries   int             `json:"tries"`
	Next    int64           `json:"next"` // no try before

	field, stored string
	damage        error // why it cannot be read; nil: it can
}

func (l letter) receiver() string { return strings.SplitN(l.field, " ", 2)[0] }

func (l letter) note() notify.Note {
	return notify.Note{ID: l.ID, Title: l.Title, Facts: l.Facts, Body: l.Body}
}

// knowledge is what the keeper knows.
type knowledge struct {
	all       map[string]occurrence
	damaged   []string  // keys of those that cannot be read
	from, now time.Time // alerts are told of since from
}

func (s *store) known(ctx context.Context) (k knowledge, err error) {
	fields, now, err := s.read(ctx, knownKey)
	if err != nil {
		return k, fmt.Errorf("read alerts: %w", err)
	}
	k = knowledge{all: map[string]occurrence{}, from: now, now: now}
	if ms, err := strconv.ParseInt(fields["from"], 10, 64); err == nil {
		k.from = time.UnixMilli(ms)
	}
	for f, text := range fields {
		key, is := strings.CutPrefix(f, ofKnown)
		if !is {
			continue
		}
		var o occurrence
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			k.damaged = append(k.damaged, key)
			continue
		}
		k.all[key] = o
	}
	return k, nil
}

// letters are those that wait, oldest first.
func (s *store) letters(ctx context.Context) ([]letter, time.Time, error) {
	fields, now, err := s.read(ctx, messagesKey)
	if err != nil {
		return nil, now, fmt.Errorf("read messages: %w", err)
	}
	var all []letter
	for f, text := range fields {
		l := letter{field: f, stored: text}
		l.damage = json.Unmarshal([]byte(text), &l)
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b letter) int { return strings.Compare(a.field, b.field) })
	return all, now, nil
}

// read returns a hash and the time.
func (s *store) read(ctx context.Context, key string) (map[string]string, time.Time, error) {
	var fields *redis.MapStringStringCmd
	var clock *redis.TimeCmd
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		fields, clock = p.HGetAll(ctx, key), p.Time(ctx)
		return nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	now := clock.Val()
	if s.now != nil {
		now = s.now()
	}
	return fields.Val(), now, nil
}

// write saves changes with the letters that follow from them.
func (s *store) write(ctx context.Context, epoch int64, changes []change, letters []letter, now time.Time) error {
	args := []any{epoch, now.UnixMilli(), len(changes)}
	for _, c := range changes {
		text := []byte{}
		if c.to != nil {
			var err error
			if text, err = json.Marshal(c.to); err != nil {
				return fmt.Errorf("write alert %s: %w", c.key, err)
			}
		}
		args = append(args, ofKnown+c.key, text)
	}
	for _, l := range letters {
		text, err := json.Marshal(l)
		if err != nil {
			return fmt.Errorf("write message %s: %w", l.ID, err)
		}
		args = append(args, l.field, text)
	}
	code, err := s.save.Run(ctx, s.rdb, []string{knownKey, messagesKey}, args...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("write alerts: %w", err)
	case code < 0:
		return errFenced
	}
	return nil
}

// replace writes a letter anew, to nil: removes it, and says whether it was still
// as it was read. epoch 0: whoever asks may.
func (s *store) replace(ctx context.Context, epoch int64, from letter, to *letter) (letter, bool, error) {
	who, text := "", []byte{}
	if epoch > 0 {
		who = strconv.FormatInt(epoch, 10)
	}
	var next letter
	if to != nil {
		next = *to
		var err error
		if text, err = json.Marshal(next); err != nil {
			return next, false, fmt.Errorf("write message %s: %w", from.ID, err)
		}
		next.stored = string(text)
	}
	code, err := s.swap.Run(ctx, s.rdb, []string{knownKey, messagesKey}, who, from.field, from.stored, text).Int()
	switch {
	case err != nil:
		return next, false, fmt.Errorf("write message %s: %w", from.ID, err)
	case code < 0:
		return next, false, errFenced
	}
	return next, code == 1, nil
}
