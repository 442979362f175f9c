package batch

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// orderPage is how many entries of a batch's index or log are read in one round
// trip: about 256 KiB.
const orderPage = 8192

// Order reads the records of a batch by the lines' numbers. It takes an eighth of
// a byte a line. It is for one goroutine.
type Order struct {
	reader recordReader
	lines  lineSet
	next   int64 // the first line that was not read
}

// Finished returns the order of the lines that are finished now, from the line
// after on; ErrNotFound: no such batch.
func (s *Redis) Finished(ctx context.Context, id string, after int64) (*Order, error) {
	return s.order(ctx, id, after, func(o *Order) error { return o.addLog(ctx) })
}

// Lines is Finished for all lines of a batch that is submitted completely,
// finished or not.
func (s *Redis) Lines(ctx context.Context, id string, after int64) (*Order, error) {
	return s.order(ctx, id, after, func(o *Order) error {
		// What was passed over at the submission has a record alone.
		return errors.Join(o.addIndex(ctx), o.addLog(ctx))
	})
}

func (s *Redis) order(ctx context.Context, id string, after int64, fill func(*Order) error) (*Order, error) {
	o := &Order{next: after + 1}
	d, err := s.description(ctx, id)
	if err == nil {
		o.reader = recordReader{s: s, d: d}
		err = fill(o)
	}
	if err != nil {
		return nil, fmt.Errorf("read lines of %s: %w", id, err)
	}
	return o, nil
}

func (o *Order) addLog(ctx context.Context) error {
	for offset := int64(0); ; offset += orderPage {
		entries, err := o.reader.s.log(ctx, o.reader.d.ID, offset, orderPage)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if err := o.lines.add(e.line); err != nil {
				return err
			}
		}
	}
}

func (o *Order) addIndex(ctx context.Context) error {
	for from := int64(0); ; from += orderPage {
		entries, err := o.reader.s.rdb.ZRange(ctx, key(o.reader.d.ID, "index"), from, from+orderPage-1).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			_, runs, err := parseIndex(e)
			if err != nil {
				return err
			}
			for _, r := range runs {
				for l := r.first; l < r.first+r.count; l++ {
					if err := o.lines.add(l); err != nil {
						return err
					}
				}
			}
		}
	}
}

// Before is how many of the lines come before the next one.
func (o *Order) Before() int64 { return o.lines.below(o.next) }

// Left says whether lines are left to read.
func (o *Order) Left() bool { return o.lines.from(o.next) > 0 }

// Read calls yield with the records from the next line on, up to the first line
// without one, or past it where gaps says so. It can be called again and goes on
// where it stood, also after an error.
func (o *Order) Read(ctx context.Context, gaps bool, yield func(Record) error) error {
	for {
		lines := o.page()
		if len(lines) == 0 {
			return nil
		}
		records, err := o.reader.read(ctx, lines)
		for i, rec := range records {
			if rec == nil && !gaps {
				return nil
			}
			if rec != nil {
				if err := yield(*rec); err != nil {
					return err
				}
			}
			o.next = lines[i] + 1
		}
		if err != nil {
			return fmt.Errorf("read results of %s: %w", o.reader.d.ID, err)
		}
	}
}

// page is the next lines, as many as a page of records has.
func (o *Order) page() (lines []int64) {
	for l := o.lines.from(o.next); l > 0 && len(lines) < resultsPage; l = o.lines.from(l + 1) {
		lines = append(lines, l)
	}
	return lines
}

// run is lines of a chunk that follow each other and start at the same rung.
type run struct {
	first, count int64
	class        int
}

// parseIndex reads an entry of a batch's index: the chunk, and its lines.
func parseIndex(entry string) (chunk string, runs []run, err error) {
	chunk, rest, ok := strings.Cut(entry, " ")
	for text := range strings.FieldsSeq(rest) {
		f := strings.Split(text, ":")
		var numbers [3]int64
		ok = ok && len(f) == len(numbers)
		for i := range numbers {
			if ok {
				numbers[i], err = strconv.ParseInt(f[i], 10, 64)
				ok = err == nil
			}
		}
		runs = append(runs, run{numbers[0], numbers[1], int(numbers[2])})
	}
	if !ok || len(runs) == 0 {
		return "", nil, fmt.Errorf("the index's entry %q is damaged", entry)
	}
	return chunk, runs, nil
}

// lineSet is a set of line numbers, a bit each.
type lineSet []uint64

// mostLines bounds a line's number, so that a damaged one does not take the memory
// of the machine: 128 MiB of them.
const mostLines = 1 << 30

func (s *lineSet) add(line int64) error {
	if line < 1 || line >= mostLines {
		return fmt.Errorf("the number %d of a line is damaged", line)
	}
	word := int(line / 64)
	for len(*s) <= word {
		*s = append(*s, 0)
	}
	(*s)[word] |= 1 << (line % 64)
	return nil
}

// from is the first line that is not below a number; 0: there is none.
func (s lineSet) from(line int64) int64 {
	for word := line / 64; word < int64(len(s)); word++ {
		w := s[word]
		if word == line/64 {
			w &= ^uint64(0) << (line % 64)
		}
		if w != 0 {
			return word*64 + int64(bits.TrailingZeros64(w))
		}
	}
	return 0
}

// below is how many lines have smaller numbers.
func (s lineSet) below(line int64) (n int64) {
	for word, w := range s {
		if int64(word) > line/64 {
			break
		}
		if int64(word) == line/64 {
			w &= 1<<(line%64) - 1
		}
		n += int64(bits.OnesCount64(w))
	}
	return n
}
