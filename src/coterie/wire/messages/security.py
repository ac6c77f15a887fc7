"""Authentication, users' SCRAM credentials and ACL bindings."""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    int64,
    string,
)


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    """SaslHandshake, key 17: versions 0-1, never flexible.

    v0: tokens follow as raw frames (KIP-43).
    v1: tokens follow in SaslAuthenticate requests (KIP-152).
    """

    mechanism: str = string()


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array("string")


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    """SaslAuthenticate, key 36: versions 0-2, flexible from 2 (KIP-152).

    v1: the session's lifetime (KIP-368).
    v2: flexible (KIP-482).
    """

    auth_bytes: bytes = binary(is_secret=True)


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+")


class UserName(Struct):
    name: str = string()


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    """DescribeUserScramCredentials, key 50: version 0, flexible (KIP-554)."""

    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(
    Message, key=50, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(
        DescribeUserScramCredentialsResult
    )


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = binary()
    salted_password: bytes = binary(is_secret=True)


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    """AlterUserScramCredentials, key 51: version 0, flexible (KIP-554)."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Message, key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(
        AlterUserScramCredentialsResult
    )


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message, key=30, versions="1-3", flexible="2+"):
    """CreateAcls, key 30: versions 1-3, flexible from 2.

    v1: resource pattern types (KIP-290).
    v2: flexible (KIP-482).
    v3: resource type USER (KIP-373).
    """

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreateAclsResponse(Message, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


class DescribeAclsRequest(Message, key=29, versions="1-3", flexible="2+"):
    """DescribeAcls, key 29: versions 1-3, flexible from 2.

    v1: resource pattern types and filters for them (KIP-290).
    v2: flexible (KIP-482).
    v3: resource type USER (KIP-373).
    """

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message, key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Message, key=31, versions="1-3", flexible="2+"):
    """DeleteAcls, key 31: versions 1-3, flexible from 2.

    v1: resource pattern types and filters for them (KIP-290).
    v2: flexible (KIP-482).
    v3: resource type USER (KIP-373).
    """

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
