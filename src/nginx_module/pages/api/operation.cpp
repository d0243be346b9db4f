#include "nginx_module/pages/api/operation.hpp"

#include "rate_limit/text/url_text.hpp"

namespace nginx_module {

namespace {

constexpr size_t longest_shown = 256; // bytes of what Redis says

rate_limit::Readable shown(std::string_view text) {
    return {text, longest_shown};
}

} // namespace

void ApiCommand::on_reply(redis_client::ReplyView reply) {
    ngx_pool_t *pool = operation_->pool();
    if (reply.is_error()) {
        const std::string_view error = reply.text().value_or("");
        failure_ = describe(pool, "Redis said: ", shown(error));
        is_of_two_nodes_ = error.starts_with("TRYAGAIN ");
    } else if (!read(reply)) {
        failure_ = "Redis gave a reply that is none to this command";
        is_outcome_unknown_ = true;
    }
    is_under_way_ = false;
    operation_->on_end_of_command();
}

void ApiCommand::on_failure(bool was_sent, const redis_client::Fault &fault) {
    const std::string reason = fault.reason();
    failure_ =
        describe(operation_->pool(), shown(fault.what), reason.empty() ? "" : ": ", shown(reason));
    is_outcome_unknown_ = was_sent;
    is_under_way_ = false;
    operation_->on_end_of_command();
}

ApiError ApiCommand::error(ngx_pool_t *pool, std::string_view what) const {
    return {.status = NGX_HTTP_BAD_GATEWAY,
            .name = "redis",
            .description = describe(pool, what, ": ", failure_),
            .is_outcome_unknown = is_outcome_unknown_};
}

ngx_int_t ApiOperation::begin() {
    ngx_http_request_t *r = request_.r;
    ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r, 0);
    if (cleanup == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    cleanup->handler = [](void *self) noexcept { static_cast<ApiOperation *>(self)->abandon(); };
    cleanup->data = this;
    resume_.set_up<&ApiOperation::resume>(*this, r->connection->log);
    if (const auto result = proceed().result()) {
        cancel_commands();
        return *result;
    }
    ++r->main->count;
    return NGX_DONE;
}

void ApiOperation::run(ApiCommand &command) {
    if (command.operation_ == nullptr) {
        command.operation_ = this;
        command.next_ = commands_;
        commands_ = &command;
    }
    command.is_under_way_ = true;
    command.is_outcome_unknown_ = command.is_of_two_nodes_ = false;
    command.failure_ = {};
    ++running_;
    request_.limits.worker->backends.of(request_.backend()).run(command);
}

std::optional<ApiError> ApiOperation::error_if_not_followed(std::string_view done) const {
    if (request_.backend().memory.follows_writes()) {
        return std::nullopt;
    }
    return ApiError{NGX_HTTP_BAD_GATEWAY, "not_followed",
                    describe(pool(), done,
                             ", but this host does not follow what operators set: see its "
                             "error log")};
}

void ApiOperation::on_end_of_command() {
    if (--running_ == 0) {
        resume_.post();
    }
}

void ApiOperation::resume() {
    if (running_ > 0) { // a command that ended at once was the last one only then
        return;
    }
    ngx_http_request_t *r = request_.r;
    ngx_connection_t *connection = r->connection;
    ngx_http_set_log_request(connection->log, r);
    if (const auto result = proceed().result()) {
        cancel_commands();
        ngx_http_finalize_request(r, *result);
        ngx_http_run_posted_requests(connection);
    }
}

void ApiOperation::abandon() {
    if (running_ == 0 && !resume_.is_posted()) {
        return;
    }
    cancel_commands();
    on_abandoned();
}

/// Nobody waits for those that are on their way. Memory may run out after some were sent, and nginx
/// may still send the answer to that when they end.
void ApiOperation::cancel_commands() {
    resume_.cancel();
    for (ApiCommand *command = commands_; command != nullptr; command = command->next_) {
        if (command->is_under_way_) {
            command->is_under_way_ = false;
            request_.limits.worker->backends.of(request_.backend()).cancel(*command);
        }
    }
    running_ = 0;
}

} // namespace nginx_module
