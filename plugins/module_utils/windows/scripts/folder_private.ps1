# storlab: folder_private
# A folder for what will run with all rights: only administrators may change what is in it.
param([string]$Folder)
$administrators = New-Object -TypeName System.Security.Principal.SecurityIdentifier -ArgumentList 'S-1-5-32-544'
$system = New-Object -TypeName System.Security.Principal.SecurityIdentifier -ArgumentList 'S-1-5-18'
$security = New-Object -TypeName System.Security.AccessControl.DirectorySecurity
$security.SetOwner($administrators)
$security.SetAccessRuleProtection($true, $false)
foreach ($who in $administrators, $system) {
    $rule = New-Object -TypeName System.Security.AccessControl.FileSystemAccessRule -ArgumentList $who, 'FullControl', 'ContainerInherit, ObjectInherit', 'None', 'Allow'
    $security.AddAccessRule($rule)
}
# Who may rename or delete a folder above could put one of his own in its place.
$replacing = [System.Security.AccessControl.FileSystemRights]'Delete, DeleteSubdirectoriesAndFiles, ChangePermissions, TakeOwnership'
$trusted = @($administrators.Value, $system.Value)
$place = [System.IO.Path]::GetPathRoot($Folder)
foreach ($part in $Folder.Substring($place.Length).Split('\')) {
    $place = [System.IO.Path]::Combine($place, $part)
    if (-not (Test-Path -LiteralPath $place)) { $null = [System.IO.Directory]::CreateDirectory($place, $security) }
    # Also those that were made here: somebody may have been faster.
    if ((Get-Item -LiteralPath $place -Force).Attributes -band [System.IO.FileAttributes]::ReparsePoint) { throw "The folder $place leads elsewhere. Remove it." }
    $acl = Get-Acl -LiteralPath $place
    if ($trusted -notcontains $acl.GetOwner([System.Security.Principal.SecurityIdentifier]).Value) { throw "The folder $place does not belong to the administrators. Remove it." }
    foreach ($rule in $acl.GetAccessRules($true, $true, [System.Security.Principal.SecurityIdentifier])) {
        $here = "$($rule.AccessControlType)" -eq 'Allow' -and -not ($rule.PropagationFlags -band [System.Security.AccessControl.PropagationFlags]::InheritOnly)
        if ($here -and $trusted -notcontains $rule.IdentityReference.Value -and ($rule.FileSystemRights -band $replacing)) {
            throw "The folder $place may be replaced by others than administrators. Take away their rights, or remove it."
        }
    }
}
if (-not (Get-Acl -LiteralPath $Folder).AreAccessRulesProtected) { throw "The folder $Folder was made by somebody else. Remove it." }
