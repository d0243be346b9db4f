# nginx has no variable for flags of C++ alone. The flags below are those of this module's objects, and
# of no others.

# With -O3, g++ 12 warns of overlapping copies in its own std::string, which never happen:
# https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105329. clang does not know this warning.
redis_rate_limit_warnings=
if [ "$NGX_CC_NAME" = gcc ]; then
    redis_rate_limit_warnings=-Wno-restrict
fi

# Debian 13 builds C with this flag, so that it is among those of an nginx that was built there. g++ does not
# know it, and with nginx's -Werror that is an error.
redis_rate_limit_flags_of_c=-Werror=implicit-function-declaration

redis_rate_limit_defines=
if [ -n "$redis_rate_limit_cctz" ]; then
    redis_rate_limit_defines=-DREDIS_RATE_LIMIT_HAS_CCTZ
fi

# The objects of the units, each of which changes with its sources and with what they embed.
redis_rate_limit_embedded() {
    case $1 in
        rate_limit) echo "$ngx_addon_dir/VERSION" "$ngx_addon_dir"/lua/*.lua ;;
        redis_client) echo "$ngx_addon_dir"/lua/*.lua ;;
        http) echo "$ngx_addon_dir"/dashboard/* ;;
    esac
}
for redis_rate_limit_source in "$redis_rate_limit_units"/*.cpp; do
    redis_rate_limit_name=$(basename "$redis_rate_limit_source" .cpp)
    redis_rate_limit_parts=$(sed -e "s|#include \"\(.*\)\"|$ngx_addon_dir/src/\1|" "$redis_rate_limit_source" | tr '\n' ' ')
    redis_rate_limit_object=$NGX_OBJS/addon/redis_rate_limit/$redis_rate_limit_name.$ngx_objext
    cat << END >> "$NGX_MAKEFILE"

$redis_rate_limit_object: CFLAGS := \$(filter-out $redis_rate_limit_flags_of_c,\$(CFLAGS)) -std=c++20 -fno-exceptions -fno-rtti -fvisibility=hidden $redis_rate_limit_lto $redis_rate_limit_warnings -I$ngx_addon_dir/src -DRATE_LIMIT_DIR='"$ngx_addon_dir"' $redis_rate_limit_defines \$(REDIS_RATE_LIMIT_CFLAGS)

$redis_rate_limit_object: $redis_rate_limit_parts $(redis_rate_limit_embedded "$redis_rate_limit_name")
END
done
