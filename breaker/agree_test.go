package breaker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"nightshift/internal/redistest"
)

// scripted holds a Redis store to recorded moves.
type scripted struct {
	*Redis
	player
}

// onScripts returns a store with these scripts; its database is the trials' alone.
func onScripts(rdb redis.UniversalClient, texts scripts) *scripted {
	s := &scripted{}
	s.Redis = newRedis(rdb, s.settingsOf, texts, nil)
	s.now = func() string { return strconv.FormatInt(s.at.now, 10) }
	return s
}

// live makes the moves of one trial, on empty breakers, and returns the first
// disagreement.
func (s *scripted) live(moves []move) error {
	if err := s.rdb.FlushDB(context.Background()).Err(); err != nil {
		return err
	}
	return s.play(moves, s.move)
}

func (s *scripted) move(m *move) error {
	switch {
	case m.op != nil:
		return s.apply(m)
	case m.lose != nil:
		return s.rdb.Del(context.Background(), breakerKey(*m.lose)).Err()
	}
	return m.ask(s.Redis)
}

// differ returns an error that shows how what we got is not what Step says.
func differ[T any](what string, want, got T, opts ...cmp.Option) error {
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		return fmt.Errorf("%s (-step +other):\n%s", what, diff)
	}
	return nil
}

// apply runs one operation and compares the reply and both records.
func (s *scripted) apply(m *move) error {
	got, err := s.do(context.Background(), m.key, m.op)
	if err != nil {
		return err
	}
	if m.reply != got {
		return differ("replies differ", m.reply, got)
	}
	return s.compare(m)
}

// compare holds the records, their places in the due set and their lives in
// Redis to what Step made.
func (s *scripted) compare(m *move) error {
	type level struct {
		key   Key
		rec   Record
		s     Settings
		hash  *redis.MapStringStringCmd
		score *redis.FloatCmd
		life  *redis.DurationCmd
	}
	levels := []level{
		{key: m.key, rec: m.model, s: m.settings.Model},
		{key: m.key.Parent(), rec: m.parent, s: m.settings.Parent},
	}
	ctx := context.Background()
	pipe := s.rdb.Pipeline()
	for i := range levels {
		l := &levels[i]
		l.hash = pipe.HGetAll(ctx, breakerKey(l.key))
		l.score = pipe.ZScore(ctx, dueKey(l.key.Provider), dueMember(l.key))
		l.life = pipe.PTTL(ctx, breakerKey(l.key))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i := range levels {
		l := &levels[i]
		got, err := decodeRecord(l.hash.Val())
		if err == nil && !equal(l.rec, got) {
			err = differ("records differ", l.rec, got, cmpopts.EquateEmpty())
		}
		if err == nil && l.rec.Epoch != 0 {
			err = l.rec.kept(l.s, l.score.Err() == nil, l.life.Val())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.key.Scope(), err)
		}
	}
	return nil
}

// kept holds what Redis keeps of the record beside it to what it means: whether
// it is indexed as wanted, and how long it still lives.
func (r Record) kept(s Settings, indexed bool, left time.Duration) error {
	if indexed != (r.Wanted > 0) {
		return fmt.Errorf("the due set holds it: %v, it is wanted until %d", indexed, r.Wanted)
	}
	forGood := r.Hold.State != "" && r.Hold.Until == 0
	if forGood != (left < 0) || !forGood && left < autoStaleMax+2*s.MaxCooldown {
		return fmt.Errorf("the record expires in %s", left)
	}
	return nil
}

func checkAgreement(t *testing.T, rdb redis.UniversalClient) {
	store := onScripts(rdb, embedded())
	rapid.Check(t, func(t *rapid.T) {
		moves, err := record(genTrial.Draw(t, "trial"))
		if err == nil {
			err = store.live(moves)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestScriptsAgreeWithStep(t *testing.T) {
	checkAgreement(t, redistest.Client(t))
}

func TestScriptsAgreeWithStepOnMiniredis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	checkAgreement(t, rdb)
}
