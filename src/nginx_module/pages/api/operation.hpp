// An API request that waits for Redis, and the commands that it sends there.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/pages/api/answer.hpp"
#include "nginx_module/pages/api/request.hpp"
#include "nginx_module/resume_event.hpp"
#include "redis_client/control/control_session.hpp"

#include <new>
#include <optional>
#include <string_view>
#include <type_traits>

namespace nginx_module {

class ApiOperation;

/// A command of an operation. Lives in the request's pool.
class ApiCommand : public redis_client::ControlCommand {
  public:
    ApiCommand(const ApiCommand &) = delete;
    ApiCommand &operator=(const ApiCommand &) = delete;

    /// Why there is no result; empty if there is one, or may still come. It is valid UTF-8.
    std::string_view failure() const { return failure_; }
    /// Whether it has failed because its keys are on two nodes of a cluster, while their hash slot
    /// moves. Commands of one key each do not.
    bool is_of_two_nodes() const { return is_of_two_nodes_; }
    /// What to answer if the command has failed. `description` begins with `what`.
    ApiError error(ngx_pool_t *pool, std::string_view what) const;

  protected:
    ApiCommand() = default;
    ~ApiCommand() = default;

  private:
    friend class ApiOperation;

    void on_reply(redis_client::ReplyView reply) final;
    void on_failure(bool was_sent, const redis_client::Fault &fault) final;
    /// Reads a reply that is no error. Returns false if it is none to this command.
    virtual bool read(redis_client::ReplyView reply) = 0;

    ApiOperation *operation_ = nullptr;
    ApiCommand *next_ = nullptr; // of the operation
    bool is_under_way_ = false;
    bool is_outcome_unknown_ = false;
    bool is_of_two_nodes_ = false;
    std::string_view failure_;
};

/// Lives in the request's pool. It may run commands one after another, or several at a time.
class ApiOperation {
  public:
    ApiOperation(const ApiOperation &) = delete;
    ApiOperation &operator=(const ApiOperation &) = delete;

    /// Begins. Returns what a content handler returns.
    ngx_int_t begin();

  protected:
    /// What a step of an operation has led to: its commands run, or the request is answered. The
    /// result of an answer may be NGX_AGAIN, too, while the client does not take it all: then nginx
    /// sends the rest, and must be told so.
    class Step {
      public:
        static Step waits() { return {}; }
        /// `result` is what a content handler returns.
        static Step answered(ngx_int_t result) {
            Step step;
            step.result_ = result;
            return step;
        }
        std::optional<ngx_int_t> result() const { return result_; }

      private:
        std::optional<ngx_int_t> result_;
    };

    explicit ApiOperation(ApiRequest &request) : request_(request) {}
    ~ApiOperation() = default;

    /// Runs a command of the zone's backend, perhaps anew.
    void run(ApiCommand &command);
    ngx_pool_t *pool() const { return request_.r->pool; }
    /// What to answer to a change that is `done`, but does not reach this host; nothing if it does.
    std::optional<ApiError> error_if_not_followed(std::string_view done) const;

    ApiRequest &request_;

  private:
    friend class ApiCommand;

    /// Is called at first, and then each time all commands that run have ended. Runs more commands,
    /// or answers the request.
    virtual Step proceed() = 0;
    /// The request ends while commands run.
    virtual void on_abandoned() {}

    void on_end_of_command();
    void resume();
    void abandon();
    void cancel_commands();

    ResumeEvent resume_; // so that the request does not end while a command is told its reply
    ApiCommand *commands_ = nullptr;
    size_t running_ = 0;
};

/// Makes an operation in the pool, and begins it.
template <typename Operation, typename... More>
ngx_int_t begin_operation(ApiRequest &request, const More &...more) {
    static_assert(alignof(Operation) <= NGX_ALIGNMENT &&
                  std::is_trivially_destructible_v<Operation>);
    void *memory = ngx_palloc(request.r->pool, sizeof(Operation));
    return memory != nullptr ? (new (memory) Operation(request, more...))->begin()
                             : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

} // namespace nginx_module
