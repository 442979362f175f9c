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

	"nightshift/internal/convoy"
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
	for len(moves) > 0 {
		some := crowd(moves)
		s.at = &some[0]
		if err := s.move(some); err != nil {
			return fmt.Errorf("step %d %+v, of %d together: %w", s.at.step, s.at.do, len(some), err)
		}
		moves = moves[len(some):]
	}
	return nil
}

// crowd is the first moves that one script makes.
func crowd(moves []move) []move {
	n, m := 1, &moves[0]
	for n < len(moves) && m.op != nil && moves[n].op != nil && moves[n].op.Kind == m.op.Kind &&
		(m.op.Kind == OpAdmit || m.op.Kind == OpReport) &&
		moves[n].key == m.key && moves[n].now == m.now && moves[n].settings == m.settings {
		n++
	}
	return moves[:n]
}

func (s *scripted) move(some []move) error {
	m := &some[0]
	switch {
	case m.op != nil:
		return s.apply(some)
	case m.lose != nil:
		return s.rdb.Del(context.Background(), breakerKey(*m.lose)).Err()
	}
	return m.ask(s.Redis, m.left)
}

// differ returns an error that shows how what we got is not what Step says.
func differ[T any](what string, want, got T, opts ...cmp.Option) error {
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		return fmt.Errorf("%s (-step +other):\n%s", what, diff)
	}
	return nil
}

// apply runs operations in one call and compares the answers, and both records
// after the last.
func (s *scripted) apply(some []move) error {
	var party convoy.Party
	var answers []*convoy.Answer
	for i := range some {
		answers = append(answers, party.Add(s.call(some[i].key, some[i].op)))
	}
	convoy.New(s.rdb).Send(context.Background(), &party)
	for i, answer := range answers {
		got, err := s.heard(some[i].key, answer)
		if err != nil {
			return err
		}
		if some[i].reply != got {
			return differ(fmt.Sprintf("answers to %d of %d differ", i+1, len(some)), some[i].reply, got)
		}
	}
	return s.compare(&some[len(some)-1])
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
