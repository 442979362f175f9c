// Package dashboard is the web page: batches and breakers on one plain page,
// and asynq's own queue console, asynqmon, under /queues.
//
//	GET /            batches and breakers, rendered here, needs no JavaScript
//	GET /static/…    its style sheet, icon and the script that refreshes it
//	GET /queues/…    asynqmon; payloads are shown as the lines they name
//
// Every request passes the door of dashboard/internal/door first, which says who
// may see the pages and who may change something.
//
// On failure: when Redis does not answer, the page comes all the same with
// status 503 and says which part is missing; the cause is logged.
package dashboard
