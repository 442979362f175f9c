package provider

import (
	"net/http"
	"time"
)

// readText is readResponse for the completion of a text, whose choices have a
// text in place of a message.
func readText(status int, h http.Header, body []byte, now time.Time) (Answer, *Error) {
	if status < 200 || status > 299 {
		return Answer{}, refuseElsewhere(status, h, body, Usage{}, now)
	}
	var c completion
	if err := readJSON(body, &c); err != nil {
		return Answer{}, unusable(status, h, body, Usage{}, err.Error())
	}
	for i, ch := range c.Choices {
		c.Choices[i].Message = message{Content: ch.Text}
	}
	return c.answer(status, h, body, now)
}

// readTextEvents is readEvents for the completion of a text.
func (x *exchange) readTextEvents(s *events) (reading, error) {
	return x.join(s, &assembly{left: x.maxBody, texts: true})
}
