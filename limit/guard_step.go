package limit

// book is everything that the guard knows: the hours of producers and of all,
// what batches have of their own, and the calls that are not settled.
type book struct {
	producers map[string]*window
	all       window
	batches   map[string]*purse
	held      map[string]heldCharge // by ticket
	swept     int64                 // the minute in which old tickets were last forgotten
}

// purse is what a batch has of its own.
type purse struct {
	Allowance int64 // calls left
	Granted   int64 // calls ever
	GrantedBy string
	GrantedAt int64 // ms
	Budget    int64 // nano-dollars; 0: none
	Spent     int64 // settled, or given up as lost
	Reserved  int64
}

// heldCharge is a call that was counted and not settled.
type heldCharge struct {
	Minute int64
	At     int64 // ms
	USD    int64
	Own    bool // of the batch's allowance
	Batch  string
}

func newBook() *book {
	return &book{producers: map[string]*window{}, batches: map[string]*purse{}, held: map[string]heldCharge{}}
}

// guardReply is what one step says.
type guardReply struct {
	scope GuardScope // "": let in
	wait  int64      // ms
	// What changed: 0 nothing, 1 opened, 2 closed; until is of one that opened.
	change, allChange int
	until, allUntil   int64
}

const (
	guardOpened = 1
	guardClosed = 2
)

func (b *book) producer(name string) *window {
	w := b.producers[name]
	if w == nil {
		w = &window{}
		b.producers[name] = w
	}
	return w
}

// clean clamps nonsense.
func (c Charge) clean() Charge {
	c.USD = clampCharge(c.USD)
	return c
}

func clampCharge(usd int64) int64 { return min(max(usd, 0), maxCharge) }

// reserve counts one call, or says what it is over. It is idempotent by ticket
// while the call is not settled.
func (b *book) reserve(c Charge, l, all GuardLimits, now int64) guardReply {
	if _, ok := b.held[c.Ticket]; ok {
		return guardReply{}
	}
	p, a := b.producer(c.Producer), &b.all
	minute := max(p.tidy(now), a.tidy(now))
	b.sweep(minute)
	if !c.Always {
		if r := b.overBudget(c); r.scope != "" {
			return r
		}
		if r := b.over(c, p, l, all, now); r.scope != "" {
			return r
		}
	}
	b.count(c, p, minute, now)
	var r guardReply
	r.change, r.until = p.turn(l, now)
	r.allChange, r.allUntil = a.turn(all, now)
	return r
}

// overBudget holds a batch to its budget: what may still come back of the calls
// under way is waited for.
func (b *book) overBudget(c Charge) guardReply {
	u := b.batches[c.Batch]
	switch {
	case c.Batch == "" || u == nil || u.Budget <= 0:
	case u.Spent+c.USD > u.Budget:
		return guardReply{scope: GuardBudget}
	case u.Spent+u.Reserved+c.USD > u.Budget:
		return guardReply{scope: GuardBudget, wait: budgetWait.Milliseconds()}
	}
	return guardReply{}
}

func (b *book) own(batch string) bool {
	u := b.batches[batch]
	return batch != "" && u != nil && u.Allowance > 0
}

// over gives the line a place in each hour that is full.
func (b *book) over(c Charge, p *window, l, all GuardLimits, now int64) (r guardReply) {
	own := b.own(c.Batch)
	rank, rankAll := int64(p.rank(c.Line)), int64(b.all.rank(c.Line))
	till := now
	if !b.all.free(all, rankAll, c.USD, false) {
		r.scope = GuardGlobal
		due := b.all.due(all, rankAll, c.USD, now, false)
		b.all.wait(c.Line, due)
		r.allChange, r.allUntil, till = b.all.opens(c.USD, now), due, max(till, due)
	}
	if !p.free(l, rank, c.USD, own) {
		r.scope = GuardProducer
		due := p.due(l, rank, c.USD, now, own)
		p.wait(c.Line, due)
		r.change, r.until, till = p.opens(c.USD, now), due, max(till, due)
	}
	r.wait = max(till-now, 1)
	return r
}

func (b *book) count(c Charge, p *window, minute, now int64) {
	own := !c.Always && b.own(c.Batch)
	p.leave(c.Line)
	b.all.leave(c.Line)
	calls := int64(1)
	if own {
		calls = 0
	}
	p.add(minute, calls, c.USD)
	b.all.add(minute, 1, c.USD)
	if u := b.batches[c.Batch]; u != nil {
		u.Reserved += c.USD
		if own {
			u.Allowance--
		}
	}
	b.held[c.Ticket] = heldCharge{Minute: minute, At: now, USD: c.USD, Own: own, Batch: c.Batch}
}

// opens notes the first refusal since the guard was closed, and the price of the last.
func (w *window) opens(usd, now int64) int {
	w.Dear = usd
	if w.Opened != 0 {
		return 0
	}
	w.Opened = now
	return guardOpened
}

// turn notes, after a call was let in, that the next one would be refused (the
// keeper may release none, so that nobody is), or that it would not be any more.
func (w *window) turn(l GuardLimits, now int64) (change int, until int64) {
	open, until := w.open(l, now)
	switch {
	case open && w.Opened == 0:
		w.Opened = now
		return guardOpened, until
	case !open && w.Opened != 0:
		w.Opened, w.Dear = 0, 0
		return guardClosed, 0
	}
	return 0, 0
}

// settle corrects a call's estimate by what it cost.
func (b *book) settle(c Charge, usd int64) {
	h, ok := b.held[c.Ticket]
	if !ok {
		return
	}
	delete(b.held, c.Ticket)
	usd = clampCharge(usd)
	b.producer(c.Producer).correct(h, 0, usd-h.USD)
	b.all.correct(h, 0, usd-h.USD)
	b.spend(h, usd)
}

// release gives back a call that was not sent.
func (b *book) release(c Charge) {
	h, ok := b.held[c.Ticket]
	if !ok {
		return
	}
	delete(b.held, c.Ticket)
	calls := int64(-1)
	if h.Own {
		calls = 0
	}
	b.producer(c.Producer).correct(h, calls, -h.USD)
	b.all.correct(h, -1, -h.USD)
	b.spend(h, 0)
	if u := b.batches[h.Batch]; u != nil && h.Own {
		u.Allowance++
	}
}

func (b *book) spend(h heldCharge, usd int64) {
	if u := b.batches[h.Batch]; u != nil {
		u.Reserved = max(u.Reserved-h.USD, 0)
		u.Spent += usd
	}
}

// sweep forgets, once a minute, the tickets of calls that nobody will settle: of
// workers that died. They stay counted, and their batch has spent the estimate.
func (b *book) sweep(minute int64) {
	if minute == b.swept {
		return
	}
	b.swept = minute
	for ticket, h := range b.held {
		if h.Minute < minute-guardMinutes {
			delete(b.held, ticket)
			b.spend(h, h.USD)
		}
	}
}

// reopen sets a producer's count to nothing.
func (w *window) reopen(by string, now int64) {
	*w = window{Seq: w.Seq, Released: now, ReleasedBy: by}
}
