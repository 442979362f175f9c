// Package dashboard is the web pages: what the night does and why it waits, and
// asynq's own queue console, asynqmon, under /queues.
//
//	GET /                        Tonight: what needs a look, what runs, what it costs     tonight.go
//	GET /batches                 all batches                                              batches.go
//	GET /batches/{id}            one of them                                              batch.go
//	GET /batches/{id}/lines/{n}  one line's story                                         line.go
//	GET /breakers                parents and models                                       breakers.go
//	GET /ladders                 each rung, and what it answered                          ladders.go
//	GET /guard                   producers against their hourly limits                    guard.go
//	GET /fleet                   workers, queues, the keeper                              fleet.go
//	GET /charts/…                images that the pages show                               charts.go
//	GET /live?page=…             what changes of a page, as server-sent events            live.go
//	GET, POST /breakers/force, /guard/release, /batches/{id}/cancel, …/retry: a
//	                             question, and the change                                 actions.go
//	GET /static/…                the style sheet, the icon and the script
//	GET /queues/…                asynqmon; payloads are shown as the lines they name      queues.go
//
// Pages are rendered here, of templates/, and whole without JavaScript. A page is a
// [content] that a reader makes of what it has [seen]; static/live.js then asks for
// its changes, which are the same page rendered again, at most every two seconds
// for all who look at it.
//
// What pages ask of Redis is bounded by batches, breakers, producers and workers,
// never by lines.
//
// Every request passes the door of dashboard/internal/door first, which says who
// may see the pages and who may change something.
//
// On failure: when Redis does not answer, the page comes all the same with
// status 503 and says which part is missing; the cause is logged.
package dashboard
