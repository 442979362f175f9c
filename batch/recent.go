package batch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// recentBytes is how much of records one look at the last ends reads.
const recentBytes = 2 << 20

// EndedLine is how a line ended, without its result.
type EndedLine struct {
	Line       int64
	Generation int
	Outcome    Outcome
	Code       string // "" for succeeded, and where nothing is known
	At         time.Time
}

// Recent returns how the lines of a batch ended that are among its last n ends, the
// newest first; fewer where their records are long. It is one script and reads no
// result. A batch that does not exist has none.
func (s *Redis) Recent(ctx context.Context, id string, n int) ([]EndedLine, error) {
	told, err := s.scripts.recent.Run(ctx, s.rdb, []string{metaKey(id)}, n, recentBytes).StringSlice()
	if err != nil {
		return nil, wrap("read last ends of "+id, err)
	}
	var all []EndedLine
	for ; len(told) >= 2; told = told[2:] {
		e, err := endedLine(told[0], told[1])
		if err != nil {
			return all, fmt.Errorf("read last ends of %s: line %s: %w", id, told[0], err)
		}
		all = append(all, e)
	}
	return all, nil
}

// endedLine reads the head of a record.
func endedLine(line, head string) (EndedLine, error) {
	rec, err := parseRecord([]byte(head + "\n"))
	if err != nil {
		return EndedLine{}, err
	}
	e := EndedLine{Generation: rec.generation, Outcome: rec.outcome, At: rec.finished}
	if code := strings.Fields(head)[4]; code != noCode { // parseRecord saw that there are five
		e.Code = code
	}
	e.Line, err = strconv.ParseInt(line, 10, 64)
	return e, err
}
