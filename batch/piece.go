package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// inFlight bounds the bytes of lines that are read and not done with, but for a
// longer line, which goes alone.
const inFlight = 2 << 20

// piece is a run of lines of a file that one goroutine reads and packs: a chunk.
type piece struct {
	raw   []byte
	spans []span
	err   error // behind its lines the input is broken, a *LineError, or cannot be read

	lines  []Line // its lines, but for those that are not kept
	facts  []fact // what else is known of each of them
	frame  []byte // the lines as a chunk has them
	packed []byte // the same, compressed; empty: nobody asked
	done   chan struct{}
	weight int64 // of the room in flight that it takes
}

// span is where one line of a piece stands.
type span struct {
	number   int64
	from, to int
	err      *LineError // it is too long
}

// fact is what is known of a line beside its request.
type fact struct {
	sum [sha256.Size]byte // of its bytes
	id  idHash
	bad *LineError // why it is no request
}

// full says whether n more bytes belong in the next piece.
func (p *piece) full(n int) bool {
	return len(p.spans) > 0 && (len(p.spans) == chunkLines || len(p.raw)+n > chunkBytes)
}

// cut reads the next piece into p; what is left over of the last one begins it.
// It returns false where the input has ended with it.
func (r *Reader) cut(p, over *piece) (more bool) {
	if p.spans = append(p.spans, over.spans...); len(over.raw) > chunkBytes {
		p.raw = over.raw
	} else { // p's own has room for more
		p.raw = append(p.raw, over.raw...)
	}
	*over = piece{}
	for !r.ended && !p.full(0) {
		from := len(p.raw)
		raw, err := r.readLine(p.raw)
		p.raw = raw
		s := span{number: r.number, from: from, to: len(raw)}
		if err != nil && (r.fault || !errors.As(err, &s.err)) {
			p.err = err
			return false
		}
		switch {
		case s.err == nil && blank(raw[from:]):
			p.raw = raw[:from]
		case len(p.spans) > 0 && len(raw) > chunkBytes:
			p.leave(over, s)
			return true
		default:
			p.spans = append(p.spans, s)
		}
	}
	return !r.ended
}

// leave gives the last line to the next piece; the shorter part is copied.
func (p *piece) leave(over *piece, s span) {
	if s.from < s.to-s.from {
		over.raw, p.raw = p.raw, append([]byte(nil), p.raw[:s.from]...)
		over.spans = []span{s}
		return
	}
	over.raw = append([]byte(nil), p.raw[s.from:]...)
	over.spans = []span{{s.number, 0, s.to - s.from, s.err}}
	p.raw = p.raw[:s.from]
}

// read tells what the lines of a piece are.
func (r *Reader) read(p *piece) {
	p.lines, p.facts = p.lines[:0], p.facts[:0]
	for _, s := range p.spans {
		raw := p.raw[s.from:s.to]
		var l Line
		f := fact{sum: sha256.Sum256(raw), bad: s.err}
		if f.bad == nil {
			l, f.bad = r.request(s.number, raw)
		}
		l.Number, l.Digest = s.number, hex.EncodeToString(f.sum[:digestBytes])
		if f.bad == nil && r.Keep != nil && !r.Keep(l) {
			continue
		}
		f.id = hashID(l.CustomID)
		p.lines, p.facts = append(p.lines, l), append(p.facts, f)
	}
	if r.Weigh != nil {
		r.Weigh(p.requests())
	}
}

// requests are the lines of a piece that are requests.
func (p *piece) requests() []Line {
	isBad := func(f fact) bool { return f.bad != nil }
	if !slices.ContainsFunc(p.facts, isBad) {
		return p.lines
	}
	var lines []Line
	for i, l := range p.lines {
		if !isBad(p.facts[i]) {
			lines = append(lines, l)
		}
	}
	return lines
}

// pieces reads the input to its end. work is called for each piece by one of
// several goroutines, and then take, in the order of the input. begin is given
// the first pieces before that: two lines at least, if there are as many.
func (r *Reader) pieces(ctx context.Context, begin func([]*piece), work func(*piece) error, take func(*piece) error) error {
	n := runtime.GOMAXPROCS(0)
	f := &flow{r: r, room: semaphore.NewWeighted(inFlight), work: make(chan *piece), order: make(chan *piece, 2*n), spare: make(chan *piece, 4*n)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.cut(ctx, begin) })
	for range n {
		g.Go(func() error {
			for p := range f.work {
				if err := work(p); err != nil {
					return err
				}
				close(p.done)
			}
			return nil
		})
	}
	g.Go(func() error { return f.take(ctx, take) })
	return g.Wait()
}

// flow is the way of pieces from the input to who takes them.
type flow struct {
	r           *Reader
	room        *semaphore.Weighted // bytes that may be in flight
	held        int64               // of them by the piece that is being read
	cuts        int
	largest     int // bytes of a piece so far, but for those of longer lines
	work, order chan *piece
	spare       chan *piece // those that are done with
}

// cut reads pieces and hands them on.
func (f *flow) cut(ctx context.Context, begin func([]*piece)) error {
	defer close(f.order)
	defer close(f.work)
	f.r.long = func() error { return f.hold(ctx, inFlight) }
	defer func() { f.r.long = nil }()
	var first []*piece
	over, lines := &piece{}, 0
	for more := true; more; {
		p := f.fresh()
		more = f.r.cut(p, over)
		if len(p.raw) <= chunkBytes {
			f.largest = max(f.largest, len(p.raw))
		}
		if lines += len(p.spans); begin != nil {
			if first = append(first, p); more && lines < 2 && len(p.raw) <= chunkBytes {
				continue
			}
			begin(first)
			begin = nil
		} else {
			first = append(first[:0], p)
		}
		for _, p := range first {
			if err := f.send(ctx, p); err != nil {
				return err
			}
		}
		clear(first) // a long line is not kept while the next one is read
	}
	return nil
}

// hold takes room for n bytes of the piece that is being read.
func (f *flow) hold(ctx context.Context, n int64) error {
	if n <= f.held {
		return nil
	}
	err := f.room.Acquire(ctx, n-f.held)
	if err == nil {
		f.held = n
	}
	return err
}

func (f *flow) send(ctx context.Context, p *piece) error {
	if err := f.hold(ctx, min(int64(len(p.raw)), inFlight)); err != nil {
		return err
	}
	p.weight, f.held = f.held, 0
	for _, to := range []chan *piece{f.order, f.work} {
		select {
		case to <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// take passes pieces on in their order.
func (f *flow) take(ctx context.Context, take func(*piece) error) error {
	for p := range f.order {
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := take(p); err != nil {
			return err
		}
		f.room.Release(p.weight)
		if len(p.raw) <= 2*chunkBytes {
			select {
			case f.spare <- p:
			default:
			}
		}
	}
	return nil
}

// fresh returns a piece to read into.
func (f *flow) fresh() *piece {
	var old piece
	select {
	case p := <-f.spare:
		old = *p
	default:
		if f.cuts++; f.cuts > 1 { // one is enough for a small file
			old.raw = make([]byte, 0, f.largest+f.largest/8)
		}
	}
	return &piece{raw: old.raw[:0], spans: old.spans[:0], lines: old.lines[:0], facts: old.facts[:0], frame: old.frame[:0], packed: old.packed[:0], done: make(chan struct{})}
}
