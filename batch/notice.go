package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/provider"
)

// noticeKey is a zset: batch that ended -> when its URL is told of it, ms. What
// counts is in the batch's own state; this only says where to look.
const noticeKey = "nightshift:notify"

// noticeRest is how long a batch that cannot be read is left alone.
const noticeRest = time.Minute

// NotifyState is how far telling of a batch's end is.
type NotifyState string

// The states of Notified.
const (
	NotifyWaiting NotifyState = "waiting" // for the end, or the next try
	NotifyTold    NotifyState = "told"
	NotifyFailed  NotifyState = "failed" // it was given up
)

// Notified is whether the URL of a batch was told of its end.
type Notified struct {
	// URL is without user and query, which can hold secrets.
	URL      string      `json:"url"`
	State    NotifyState `json:"state"`
	Attempts int         `json:"attempts"` // at this end; one that is under way counts
	Error    string      `json:"error"`    // of the last attempt; "": none yet, or told
	NextAt   *time.Time  `json:"next_at"`  // null: the batch has not ended, or nothing is left to do
	ToldAt   *time.Time  `json:"told_at"`

	target string // the whole URL
}

// Notice is one try at telling of a batch's end.
type Notice struct {
	Batch string
	URL   string
	// ID is the same for every try at one end, and another for the next end of a
	// batch that was retried.
	ID    string
	Body  []byte        // JSON
	Try   int           // 1: the first
	Since time.Duration // the first try
	end   int64         // ms
	place int64         // in the index, ms
}

// NoticeResult is what became of a try.
type NoticeResult struct {
	Told  bool
	Error string        // why it was not, for people
	Again time.Duration // until the next try; 0: it is given up
}

// Message is what a batch's URL is told, in the shape of Standard Webhooks.
type Message struct {
	Type      string    `json:"type"` // batch.done
	Timestamp time.Time `json:"timestamp"`
	Data      Ended     `json:"data"`
}

// Ended is a batch that is over: some of its [Status].
type Ended struct {
	ID         string       `json:"id"`
	State      State        `json:"state"`
	Queue      string       `json:"queue"`
	Producer   string       `json:"producer"`
	Total      int64        `json:"total"`
	Succeeded  int64        `json:"succeeded"`
	Failed     int64        `json:"failed"`
	Expired    int64        `json:"expired"`
	Cancelled  int64        `json:"cancelled"`
	Degraded   int64        `json:"degraded"`
	CostUSD    provider.USD `json:"cost_usd"`
	WastedUSD  provider.USD `json:"wasted_usd"`
	CreatedAt  time.Time    `json:"created_at"`
	FinishedAt time.Time    `json:"finished_at"`
	Deadline   *time.Time   `json:"deadline"`
	OnTime     *bool        `json:"on_time"`
}

// Message is what is told of a batch that is over.
func (st Status) Message() Message {
	return Message{"batch.done", *st.FinishedAt, Ended{
		ID: st.ID, State: st.State, Queue: st.Queue, Producer: st.Producer, Total: st.Total,
		Succeeded: st.Succeeded, Failed: st.Failed, Expired: st.Expired, Cancelled: st.Cancelled, Degraded: st.Degraded,
		CostUSD: st.CostUSD, WastedUSD: st.WastedUSD,
		CreatedAt: st.CreatedAt, FinishedAt: *st.FinishedAt, Deadline: st.Deadline, OnTime: st.OnTime,
	}}
}

// noticeID names one end of a batch. Signatures join it to others with dots, of
// which it has none.
func noticeID(batch string, end int64) string {
	sum := sha256.Sum256([]byte(batch + " " + strconv.FormatInt(end, 10)))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// tells says whether somebody is to be told of the end.
func (m state) tells() bool {
	var d struct{ Notify string }
	return json.Unmarshal([]byte(m["d"]), &d) == nil && d.Notify != ""
}

// notified is how far telling of the end is; nil: nobody is to be told.
func (m state) notified(target string) *Notified {
	if target == "" {
		return nil
	}
	n := &Notified{URL: plainURL(target), State: NotifyWaiting, target: target}
	if !m.finished() || m["notify_end"] != m["finished_at"] {
		return n
	}
	n.Attempts, n.Error = int(m.int("notify_tries")), m["notify_error"]
	n.NextAt, n.ToldAt = timePtr(fromMS(m.int("notify_next"))), timePtr(fromMS(m.int("notify_told")))
	switch {
	case n.ToldAt != nil:
		n.State = NotifyTold
	case n.NextAt == nil:
		n.State = NotifyFailed
	}
	return n
}

// plainURL is a URL without what can be secret in it.
func plainURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// forget takes batches that are over out of the index of live ones, those of
// which somebody is to be told only once the other index has them.
func (s *Redis) forget(ctx context.Context, ends []redis.Z, over []any) error {
	if len(over) == 0 {
		return nil
	}
	if len(ends) > 0 {
		if err := s.rdb.ZAdd(ctx, noticeKey, ends...).Err(); err != nil {
			return fmt.Errorf("note the ends to tell of: %w", err)
		}
	}
	return wrap("forget finished batches", s.retire(ctx, over))
}

// TakeNotices returns up to n tries at telling of ends that are due, and keeps them from
// everybody else for the time of hold or until they settle. epoch is the
// keeper's; one smaller than the last seen is ErrFenced. A batch that cannot be
// read holds up no other: the rest come back beside an error.
func (s *Redis) TakeNotices(ctx context.Context, epoch int64, n int, hold time.Duration) ([]Notice, error) {
	var places *redis.ZSliceCmd
	var clock *redis.TimeCmd
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		places = p.ZRangeWithScores(ctx, noticeKey, 0, int64(n-1))
		clock = p.Time(ctx)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the ends to tell of: %w", err)
	}
	now := s.orTest(clock.Val()).UnixMilli()
	var all []Notice
	var errs []error
	for _, z := range places.Val() {
		id, place := z.Member.(string), int64(z.Score)
		if place > now {
			break
		}
		notice, err := s.takeNotice(ctx, id, place, epoch, hold)
		if err != nil && !errors.Is(err, ErrFenced) {
			err = errors.Join(err, s.move(ctx, id, place, now+noticeRest.Milliseconds()))
		}
		errs = append(errs, wrap("tell of the end of "+id, err))
		if notice != nil {
			all = append(all, *notice)
		}
	}
	return all, errors.Join(errs...)
}

// takeNotice returns nil where there is nothing to tell now.
func (s *Redis) takeNotice(ctx context.Context, id string, place, epoch int64, hold time.Duration) (*Notice, error) {
	v, err := s.scripts.notice.Run(ctx, s.rdb, []string{metaKey(id)}, s.nowArg(), epoch, hold.Milliseconds()).Int64Slice()
	if err != nil {
		return nil, err
	}
	switch v[0] {
	case 2:
		return nil, s.move(ctx, id, place, 0)
	case 3:
		return nil, s.move(ctx, id, place, v[1])
	case -1:
		return nil, ErrFenced
	}
	n := Notice{Batch: id, ID: noticeID(id, v[1]), Try: int(v[2]), Since: time.Duration(v[3]) * time.Millisecond, end: v[1], place: v[4]}
	st, err := s.Status(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && (st.Notify == nil || ms(st.end()) != n.end):
		return nil, nil // deleted or retried meanwhile: the next look settles it
	case err != nil:
		return nil, err
	}
	n.URL = st.Notify.target
	if n.Body, err = json.Marshal(st.Message()); err != nil {
		return nil, err
	}
	return &n, s.move(ctx, id, place, n.place)
}

func (st Status) end() time.Time {
	if st.FinishedAt == nil {
		return time.Time{}
	}
	return *st.FinishedAt
}

// SettleNotice notes what became of a try. A try that others have overtaken, or
// whose batch was retried or deleted meanwhile, changes nothing, except that
// who was told was told.
func (s *Redis) SettleNotice(ctx context.Context, n Notice, r NoticeResult) error {
	told := 0
	if r.Told {
		told = 1
	}
	next, err := s.scripts.told.Run(ctx, s.rdb, []string{metaKey(n.Batch)},
		s.nowArg(), n.end, n.Try, told, r.Again.Milliseconds(), r.Error).Int64()
	if err == nil && next >= 0 {
		err = s.move(ctx, n.Batch, n.place, next)
	}
	return wrap("note that "+n.Batch+" was told of", err)
}

// move changes the place of a batch in the index, 0: out, unless it changed
// meanwhile.
func (s *Redis) move(ctx context.Context, id string, from, to int64) error {
	return wrap("move in the index", s.scripts.due.Run(ctx, s.rdb, []string{noticeKey}, id, from, to).Err())
}
