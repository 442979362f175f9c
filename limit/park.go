package limit

import "time"

// The numbers of a park.
const (
	firstWait   = time.Second      // a 429 without a Retry-After
	longestWait = time.Minute      // what that doubles to
	maxRetry    = time.Hour        // a longer Retry-After is taken as this
	maxStepBack = 60 * time.Second // a clock that stepped back further voids a park
)

// Model names what is parked. Model is the configuration's key, "provider/name".
type Model struct {
	Provider string
	Model    string
}

// State is the park of one model. Times are milliseconds of the store's clock.
// The zero state is a model that was never parked.
type State struct {
	At    int64 // when Until was last set
	Until int64 // no calls before
	// Wait is the last wait that no Retry-After gave, ms; it doubles while
	// refusals follow each other.
	Wait int64
}

// Park applies one refusal (a 429) at now, in ms, and returns the new state and
// the time until which the model is parked. It is pure.
//
// A Retry-After sets at least now plus itself, at most an hour; the later time
// wins. Zero and less is none. Without one the wait is 1 s. It doubles, up to
// 60 s, with each refusal that follows, which means within twice the last wait
// after that wait's end; a later one begins anew at 1 s. A refusal
// while the model is parked comes from a call that began before: it says
// nothing new, and many workers' 429s of the same moment count as one.
func Park(st State, retryAfter time.Duration, now int64) (State, int64) {
	if st.void(now) {
		st = State{}
	}
	until := st.Until
	switch {
	case retryAfter > 0:
		wait := (min(retryAfter, maxRetry) + time.Millisecond - 1) / time.Millisecond
		until = max(until, now+int64(wait))
	case now >= st.Until:
		st.Wait = nextWait(st, now)
		until = now + st.Wait
	}
	if until != st.Until {
		st.At, st.Until = now, until
	}
	return st, st.Until
}

// retryMS is a Retry-After in ms, rounded up and within bounds; 0: none.
func retryMS(d time.Duration) int64 {
	return ceil(int64(min(d, maxRetry)), int64(time.Millisecond))
}

// Parked returns how long the model is still parked at now, in ms; 0: it is not.
func Parked(st State, now int64) int64 {
	if st.void(now) {
		return 0
	}
	return max(st.Until-now, 0)
}

// void says that the clock stepped back so far that Until has no meaning.
func (st State) void(now int64) bool { return now < st.At-maxStepBack.Milliseconds() }

func nextWait(st State, now int64) int64 {
	if st.Wait == 0 || now > st.Until+2*st.Wait {
		return firstWait.Milliseconds()
	}
	return min(2*st.Wait, longestWait.Milliseconds())
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
