package tasks

// room is how much stack an attempt takes, about, in bytes.
const room = 24 << 10

// makeRoom grows the stack of its goroutine once, while there is next to nothing on
// it. asynq begins a goroutine for every task, whose stack would grow three times on
// the way down an attempt, and each time copy all that is on it.
//
//go:noinline
func makeRoom(i int) byte {
	var frame [room]byte
	frame[uint(i)%room] = 1
	return frame[uint(i+1)%room]
}
